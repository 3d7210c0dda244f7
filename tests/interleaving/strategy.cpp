#include "strategy.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace interleaving {

namespace {

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::abort();  // the threads of the model can't be left where they are
}

}  // namespace

std::string describe(const search& how) {
  if (!how.replay.empty()) return "replayed";
  const std::string seed = ", seed " + std::to_string(how.seed);
  switch (how.how) {
    case by::depth_first:
      return "depth first, " + std::to_string(how.preemptions) + " preemptions";
    case by::random:
      return "at random" + seed;
    default:
      return "by priorities, " + std::to_string(how.changes) + " changes" + seed;
  }
}

std::unique_ptr<strategy> strategy::make(const search& how) {
  if (!how.replay.empty()) return std::make_unique<replayed>(how.replay);
  switch (how.how) {
    case by::depth_first:
      return std::make_unique<depth_first>(how);
    case by::random:
      return std::make_unique<at_random>(how);
    default:
      return std::make_unique<by_priorities>(how);
  }
}

// ---- depth first ----

void depth_first::begin_run() {
  left_ = preemptions_;
  depth_ = 0;
}

std::size_t depth_first::choose(std::span<const std::uint8_t> threads, bool first_is_running) {
  if (threads.size() == 1) return 0;
  const auto count = static_cast<std::uint8_t>(threads.size());
  if (depth_ == trail_.size()) trail_.push_back({0, count});
  if (trail_[depth_].count != count) give_up("the model does not do the same under the same schedule");
  const std::size_t taken = trail_[depth_++].taken;
  if (first_is_running && taken != 0) --left_;
  return taken;
}

/// The last decision that has an alternative left takes it; those after it are open again.
bool depth_first::next_run() {
  if (++runs_ == most_) return false;
  while (!trail_.empty() && trail_.back().taken + 1 == trail_.back().count) trail_.pop_back();
  if (trail_.empty()) return false;
  ++trail_.back().taken;
  return true;
}

// ---- by priorities ----

void by_priorities::begin_run() {
  longest_ = std::max(longest_, steps_);
  steps_ = 0;
  priorities_.clear();
  for (std::uint64_t& change : changes_) change = 1 + random_.below(longest_);
}

std::uint64_t by_priorities::priority_of(std::size_t thread) {
  // Two alike are as good as none; what falls lies below all that is drawn here.
  while (priorities_.size() <= thread) priorities_.push_back(changes_.size() + random_.below(std::uint64_t{1} << 32));
  return priorities_[thread];
}

std::size_t by_priorities::choose(std::span<const std::uint8_t> threads, bool first_is_running) {
  ++steps_;
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    if (changes_[i] == steps_ && first_is_running) {
      priority_of(threads[0]);
      priorities_[threads[0]] = i;
    }
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < threads.size(); ++i) {
    if (priority_of(threads[i]) > priority_of(threads[best])) best = i;
  }
  return best;
}

// ---- replayed ----

replayed::replayed(const std::string& schedule) {
  for (std::size_t at = 0; at < schedule.size();) {
    const char thread = schedule[at++];
    std::size_t times = 0;
    for (; at < schedule.size() && schedule[at] >= '0' && schedule[at] <= '9'; ++at) {
      times = times * 10 + static_cast<std::size_t>(schedule[at] - '0');
    }
    turns_.insert(turns_.end(), std::max<std::size_t>(times, 1), static_cast<std::uint8_t>(thread - 'a'));
  }
}

std::size_t replayed::choose(std::span<const std::uint8_t> threads, bool) {
  if (next_ == turns_.size()) return 0;
  const auto found = std::find(threads.begin(), threads.end(), turns_[next_++]);
  if (found == threads.end()) give_up("this schedule is of another model, or of another version of it");
  return static_cast<std::size_t>(found - threads.begin());
}

std::string to_text(std::span<const std::uint8_t> turns) {
  std::string text;
  for (std::size_t from = 0, to = 0; from < turns.size(); from = to) {
    while (to < turns.size() && turns[to] == turns[from]) ++to;
    text += static_cast<char>('a' + turns[from]);
    if (to - from > 1) text += std::to_string(to - from);
  }
  return text;
}

}  // namespace interleaving
