#include "model.hpp"

#include <algorithm>
#include <limits>

namespace simulated {

const char* name_of(end e) noexcept {
  constexpr const char* names[] = {"waiting",     "granted",          "cancelled",        "timed_out",
                                   "unreachable", "queue_full",       "evicted",          "stopped",
                                   "too_large",   "invalid_priority", "invalid_argument", "no_memory"};
  return names[static_cast<std::size_t>(e)];
}

// ---- bucket ----

void bucket::pass(std::int64_t ns) noexcept { missing = std::max<std::int64_t>(0, missing - ns); }

std::int64_t bucket::wait_for(std::uint64_t n) const noexcept {
  return std::max<std::int64_t>(0, missing - (burst - static_cast<std::int64_t>(n)) * token);
}

std::int64_t bucket::available() const noexcept { return burst - (missing + token - 1) / token; }

void bucket::refund(std::uint64_t n) noexcept { pass(static_cast<std::int64_t>(n) * token); }

void bucket::charge(std::uint64_t n) noexcept { missing += static_cast<std::int64_t>(n) * token; }

// What is there stays, the part of a token that has come to the nanosecond.
void bucket::set_token(std::int64_t ns) noexcept {
  const std::int64_t whole = (missing + token - 1) / token;
  const std::int64_t part = whole * token - missing;
  missing = whole * ns - part * ns / token;
  token = ns;
}

void bucket::set_burst(std::int64_t n) noexcept {
  missing = std::max<std::int64_t>(0, missing + (n - burst) * token);
  burst = n;
}

// ---- model ----

int model::class_of(const waiter& w) const noexcept {
  const auto risen = options_.ageing == duration::max() ? 0 : (now_ - w.since) / options_.ageing;
  return static_cast<int>(std::max<std::int64_t>(0, w.wanted.priority - risen));
}

std::vector<model::waiter>::iterator model::first() {
  return std::min_element(queue_.begin(), queue_.end(), [this](const waiter& a, const waiter& b) {
    return std::pair{class_of(a), a.sequence} < std::pair{class_of(b), b.sequence};
  });
}

std::uint64_t model::largest() const noexcept {
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const bucket& b : options_.rates) most = std::min(most, static_cast<std::uint64_t>(b.burst));
  if (options_.places && options_.places_are_tokens) most = std::min(most, *options_.places);
  return most;
}

std::uint64_t model::places_for(std::uint64_t tokens) const noexcept {
  return !options_.places ? 0 : options_.places_are_tokens ? tokens : 1;
}

bool model::has_place_for(std::uint64_t tokens) const noexcept {
  return !options_.places || held_ + places_for(tokens) <= *options_.places;
}

/// The slowest decides.
std::int64_t model::wait_for(std::uint64_t tokens) const noexcept {
  std::int64_t longest = 0;
  for (const bucket& b : options_.rates) longest = std::max(longest, b.wait_for(tokens));
  return longest;
}

bool model::try_take(std::uint64_t tokens) noexcept {
  if (!has_place_for(tokens)) return false;
  if (wait_for(tokens) > 0) return false;
  if (shared_ != nullptr && !shared_->may_take()) return false;
  charge(tokens);
  held_ += places_for(tokens);
  if (shared_ != nullptr) shared_->take();
  return true;
}

time_point model::earliest(const request& r) const noexcept {
  std::uint64_t tokens = r.tokens;
  for (const auto& w : queue_) {
    if (w.wanted.priority <= r.priority) tokens += w.wanted.tokens;
  }
  const time_point ready = now_ + duration{wait_for(tokens)};
  return paused_until_ == time_point::max() ? ready : std::max(ready, paused_until_);
}

void model::finish(int id, end how) {
  fates_[id] = {how, now_};
  ++counts_[how];
}

void model::finish(std::vector<waiter>::iterator w, end how) {
  finish(w->id, how);
  queue_.erase(w);
}

/// What is to be said at once, or `waiting`.
end model::enter(const request& r) {
  if (r.priority < 0 || r.priority >= options_.priorities) return end::invalid_priority;
  if (stopped_) return end::stopped;
  if (r.tokens == 0) return end::invalid_argument;
  if (r.tokens > largest()) return end::too_large;
  if (r.deadline < now_) return end::unreachable;
  if (queue_.empty() && now_ >= paused_until_ && try_take(r.tokens)) return end::granted;
  return end::waiting;
}

bool model::try_acquire(const request& r) {
  const end how = enter(r);
  ++counts_[how == end::waiting ? end::queue_full : how];
  return how == end::granted;
}

void model::acquire(int id, const request& r) {
  end how = enter(r);
  if (how == end::waiting && r.deadline != time_point::max() && earliest(r) > r.deadline) how = end::unreachable;
  if (how == end::waiting && queue_.size() >= options_.queue_limit) {
    auto victim = queue_.end();
    if (options_.on_overflow == canigo::overflow::evict_oldest) victim = queue_.begin();
    if (options_.on_overflow == canigo::overflow::evict_least_important) {
      for (auto w = queue_.begin(); w != queue_.end(); ++w) {
        if (victim == queue_.end() || w->wanted.priority >= victim->wanted.priority) victim = w;
      }
      if (victim->wanted.priority <= r.priority) victim = queue_.end();
    }
    if (victim == queue_.end()) {
      how = end::queue_full;
    } else {
      finish(victim, end::evicted);
    }
  }
  if (how != end::waiting) {
    finish(id, how);
    return;
  }
  queue_.push_back({id, r, sequence_++, now_});
  fates_[id] = {};
  serve();
}

void model::cancel(int id) {
  const auto w = std::find_if(queue_.begin(), queue_.end(), [id](const waiter& x) { return x.id == id; });
  if (w == queue_.end()) return;
  finish(w, end::cancelled);
  serve();
}

void model::serve() {
  if (shared_ != nullptr) return shared_->settle();
  while (!queue_.empty() && now_ >= paused_until_) {
    const auto w = first();
    if (try_take(w->wanted.tokens)) {
      finish(w, end::granted);
    } else {
      return;
    }
  }
}

time_point model::next_event() {
  time_point next = time_point::max();
  if (queue_.empty()) return next;
  if (paused_until_ > now_) {
    next = paused_until_;
  } else if (has_place_for(first()->wanted.tokens)) {
    const std::int64_t wait = wait_for(first()->wanted.tokens);
    if (wait > 0) next = now_ + duration{wait};
  }
  for (const auto& w : queue_) {
    if (w.wanted.deadline >= now_) next = std::min<time_point>(next, w.wanted.deadline);
    if (options_.ageing != duration::max() && class_of(w) > 0) {
      next = std::min(next, now_ + (options_.ageing - (now_ - w.since) % options_.ageing));
    }
  }
  return next;
}

void model::pass_to(time_point t) {
  for (;;) {
    const time_point event = next_event();
    const time_point next = std::min(t, event);
    move_to(next);
    if (event > t) return;
    serve();
    // One whose deadline is now may go now; after that it may not.
    while (end_one_too_late()) serve();
  }
}

void model::move_to(time_point t) {
  for (bucket& b : options_.rates) b.pass((t - now_).count());
  now_ = t;
}

bool model::end_one_too_late() {
  const auto late =
      std::find_if(queue_.begin(), queue_.end(), [this](const waiter& w) { return w.wanted.deadline <= now_; });
  if (late == queue_.end()) return false;
  finish(late, end::timed_out);
  return true;
}

void model::refund(std::uint64_t n) {
  for (bucket& b : options_.rates) b.refund(n);
  serve();
}

void model::charge(std::uint64_t n) {
  for (bucket& b : options_.rates) b.charge(n);
}

void model::set_token(std::size_t rate, std::int64_t ns) {
  options_.rates[rate].set_token(ns);
  serve();
}

void model::set_burst(std::size_t rate, std::int64_t n) {
  options_.rates[rate].set_burst(n);
  end_too_large();
  serve();
}

void model::set_places(std::uint64_t n) {
  options_.places = n;
  end_too_large();
  serve();
}

void model::end_too_large() {
  for (bool again = true; again;) {
    const auto w =
        std::find_if(queue_.begin(), queue_.end(), [this](const waiter& x) { return x.wanted.tokens > largest(); });
    again = w != queue_.end();
    if (again) finish(w, end::too_large);
  }
}

void model::release(std::uint64_t n) {
  held_ -= n;
  if (shared_ != nullptr) shared_->put_back(n);
  serve();
}

void model::pause_until(time_point t) {
  paused_until_ = t;
  serve();
}

void model::stop() {
  stopped_ = true;
  while (!queue_.empty()) finish(first(), end::stopped);
  if (shared_ != nullptr) shared_->settle();
}

std::vector<std::int64_t> model::tokens() const {
  std::vector<std::int64_t> all;
  for (const bucket& b : options_.rates) all.push_back(b.available());
  return all;
}

/// The first lacks nothing, but a place that is shared.
bool model::could_go() {
  if (queue_.empty() || now_ < paused_until_) return false;
  const std::uint64_t tokens = first()->wanted.tokens;
  return has_place_for(tokens) && wait_for(tokens) == 0;
}

std::uint64_t model::count(end e) const {
  const auto found = counts_.find(e);
  return found == counts_.end() ? 0 : found->second;
}

// ---- shared_model ----

/// Who lacks a place now. A limiter keeps its turn as long as the class of its first one stays.
void shared_model::look() {
  for (std::size_t i = 0; i < models_.size(); ++i) {
    model& m = *models_[i];
    const auto known = std::find_if(lacking_.begin(), lacking_.end(), [i](const lack& l) { return l.who == i; });
    const bool lacks = m.could_go();
    const int priority = lacks ? m.class_of(*m.first()) : 0;
    if (known != lacking_.end()) {
      if (lacks && known->priority == priority) continue;
      lacking_.erase(known);
    }
    if (lacks) lacking_.push_back({i, priority, is_passing_ ? step_ : turn_after(i)});
  }
}

/// The next turn. Who had a turn in common with others, and gets a place in the same step as they, has one in common
/// with them again.
std::uint64_t shared_model::turn_after(std::size_t who) {
  const auto had = had_turn_.find(who);
  if (had == had_turn_.end()) return ++step_;
  std::uint64_t& next = next_turn_[had->second];
  if (next == 0) next = ++step_;
  had_turn_.erase(had);
  return next;
}

/// How many more the engine has granted of it.
std::uint64_t shared_model::chosen(const lack& l) {
  const std::uint64_t there = has_granted_(l.who);
  const std::uint64_t here = models_[l.who]->count(end::granted);
  return there > here ? there - here : 0;
}

void shared_model::settle(bool only_chosen) {
  had_turn_.clear();
  next_turn_.clear();
  for (look(); held_ < places_ && !lacking_.empty(); look()) {
    const auto next = std::min_element(lacking_.begin(), lacking_.end(), [this](const lack& a, const lack& b) {
      // Of those that time alone brought, in whatever order, the engine's choice.
      const bool tie = is_passing_ && a.since == step_ && b.since == step_;
      if (tie) return chosen(a) > chosen(b);
      if (a.priority != b.priority) return a.priority < b.priority;
      if (a.since != b.since) return a.since < b.since;
      return chosen(a) > chosen(b);
    });
    if (only_chosen && chosen(*next) == 0) return;
    model& m = *models_[next->who];
    had_turn_[next->who] = next->since;
    lacking_.erase(next);
    const auto w = m.first();
    m.charge(w->wanted.tokens);
    m.held_ += m.places_for(w->wanted.tokens);
    take();
    m.finish(w, end::granted);
  }
}

void shared_model::resize(std::uint64_t places) {
  places_ = places;
  settle();
}

time_point shared_model::next_event() {
  time_point next = time_point::max();
  for (const auto& m : models_) next = std::min(next, m->next_event());
  return next;
}

void shared_model::pass_to(time_point t) {
  for (;;) {
    const time_point event = next_event();
    for (const auto& m : models_) m->move_to(std::min(t, event));
    if (event > t) return;
    is_passing_ = true;
    ++step_;
    settle(true);
    for (bool again = true; again;) {
      again = false;
      for (const auto& m : models_) again = again || m->end_one_too_late();
      settle(true);
    }
    settle();
    is_passing_ = false;
  }
}

}  // namespace simulated
