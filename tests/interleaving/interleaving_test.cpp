#include "interleaving_test.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CANIGO_IS_SLOW 1
#endif
#endif
#ifndef CANIGO_IS_SLOW
#define CANIGO_IS_SLOW 0
#endif

using interleaving::by;
using interleaving::search;

namespace {

constexpr bool is_slow = CANIGO_IS_SLOW != 0;

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

const std::uint64_t runs = std::stoull(setting("INTERLEAVING_RUNS", is_slow ? "500" : "20000"));
const std::uint64_t seed = std::stoull(setting("INTERLEAVING_SEED", "1"));
const std::string mode = setting("INTERLEAVING_MODE", "all");
const std::string replay = setting("INTERLEAVING_REPLAY", "");

bool is_wanted(const char* a_mode) { return mode == "all" || mode == a_mode; }

interleaving::verdict explored(const search& how, const interleaving::model& m) {
  interleaving::verdict v = interleaving::explorer::explore(how, m);
  tally::of_all().add_runs(how, v.runs);
  INFO(describe(how) << ", run " << v.runs << ": " << v.failure << "\n"
                     << v.schedule << "again with INTERLEAVING_REPLAY=" << v.replay);
  REQUIRE(v.ok());
  return v;
}

/// The most preemptions for which there was no schedule left.
int explored_depth_first(int preemptions, const interleaving::model& m) {
  std::uint64_t before = 0;
  // A bound that is too high by far is given up in the middle.
  for (std::uint64_t most = 0;; ++preemptions, most = runs * 20) {
    const interleaving::verdict v = explored({.preemptions = preemptions, .runs = most}, m);
    if (!v.is_complete) return preemptions - 1;
    if (v.runs == before || v.runs >= runs) return preemptions;
    before = v.runs;
  }
}

}  // namespace

tally& tally::of_all() {
  static tally t;
  return t;
}

void tally::add_model(int completed_preemptions) {
  ++models_;
  ++completed_[completed_preemptions];
}

void tally::add_runs(const search& how, std::uint64_t n) { runs_[how.how] += n; }

std::uint64_t tally::models_to_the_end(int preemptions) const {
  std::uint64_t n = 0;
  for (auto at = completed_.lower_bound(preemptions); at != completed_.end(); ++at) n += at->second;
  return n;
}

std::uint64_t tally::all_runs() const {
  std::uint64_t n = 0;
  for (const auto& [how, some] : runs_) n += some;
  return n;
}

bool tally::meets(const std::string& demand) const {
  std::istringstream words{demand};
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':');
    const std::string of = word.substr(0, colon);
    const std::uint64_t least = std::stoull(word.substr(colon + 1));
    if ((of == "all" ? all_runs() : models_to_the_end(std::stoi(of))) < least) return false;
  }
  return true;
}

tally::~tally() {
  if (models_ == 0) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
  fmt::print("{} models, {} schedules: {} depth first, {} at random, {} by priorities; {:.0f} a second\n", models_,
             all_runs(), runs_[by::depth_first], runs_[by::random], runs_[by::priorities],
             static_cast<double>(all_runs()) / took.count());
  for (int n = 1; n <= 4; ++n) fmt::print("to the end with {} preemptions: {} models\n", n, models_to_the_end(n));
  const std::string demand = setting("INTERLEAVING_DEMAND", "");
  std::fflush(stdout);
  if (meets(demand)) return;
  fmt::print(stderr, "that is not what was demanded: {}\n", demand);
  std::_Exit(1);
}

void explore(int preemptions, const interleaving::model& m) {
  if (!replay.empty()) {
    explored({.replay = replay}, m);
    return;
  }
  int completed = 0;
  if (is_wanted("depth-first")) completed = explored_depth_first(is_slow ? preemptions - 1 : preemptions, m);
  if (is_wanted("random")) explored({.how = by::random, .runs = runs / 2, .seed = seed}, m);
  for (std::size_t changes = 1; changes <= 3 && is_wanted("priorities"); ++changes) {
    explored({.how = by::priorities, .runs = runs / 6, .seed = seed, .changes = changes}, m);
  }
  tally::of_all().add_model(completed);
}
