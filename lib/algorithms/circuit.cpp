#include "canigo/algorithms/circuit.hpp"

#include "canigo/error.hpp"

#include <algorithm>
#include <string>

namespace canigo {

namespace {

const circuit_breaker_options& checked(const circuit_breaker_options& o) {
  const auto refuse = [](const char* field, auto value, std::string_view allowed) {
    detail::throw_invalid(std::string{"circuit_breaker_options."} + field, value, allowed);
  };
  if (o.failures < 1 || o.failures > 100) refuse("failures", o.failures, "1 to 100");
  if (o.least_calls < 1) refuse("least_calls", o.least_calls, "1 or more");
  if (o.window < std::chrono::milliseconds{1}) refuse("window", o.window, "1ms or more");
  if (o.slow <= duration::zero()) refuse("slow", o.slow, "more than 0");
  if (o.slow_percent < 1 || o.slow_percent > 100) refuse("slow_percent", o.slow_percent, "1 to 100");
  if (o.open_for <= duration::zero()) refuse("open_for", o.open_for, "more than 0");
  if (o.most_open_for < o.open_for) {
    refuse("most_open_for", o.most_open_for, "open_for, which is " + to_string(o.open_for) + ", or more");
  }
  if (o.probes < 1 || o.probes > 1000) refuse("probes", o.probes, "1 to 1000");
  if (o.mode != enforcement::enforce && o.mode != enforcement::shadow) {
    refuse("mode", static_cast<int>(o.mode), "enforce, shadow");
  }
  return o;
}

}  // namespace

circuit::circuit(const circuit_breaker_options& o, time_point now)
    : failures_{static_cast<std::uint64_t>(checked(o).failures)},
      slow_percent_{static_cast<std::uint64_t>(o.slow_percent)},
      least_calls_{o.least_calls},
      probes_{static_cast<std::uint64_t>(o.probes)},
      bucket_length_{o.window / static_cast<int>(buckets)},
      first_open_for_{o.open_for},
      most_open_for_{o.most_open_for},
      open_for_{o.open_for},
      bucket_end_{saturating_add(now, bucket_length_)} {}

std::optional<circuit::epoch> circuit::try_enter(time_point now) noexcept {
  switch (state_) {
    case circuit_state::closed:
      return epoch_;
    case circuit_state::forced_closed:
      return 0;
    case circuit_state::forced_open:
      return std::nullopt;
    case circuit_state::open:
      if (now < open_until_) return std::nullopt;
      change_to(circuit_state::half_open, now);
      break;
    case circuit_state::half_open:
      if (probing_ + all_.calls >= probes_) return std::nullopt;
      break;
  }
  ++probing_;
  return epoch_;
}

void circuit::report(epoch e, bool failed, bool slow, time_point now) noexcept {
  if (e != epoch_) return;
  if (state_ == circuit_state::closed) {
    advance(now);
    count(failed, slow);
    if (all_.calls >= least_calls_ && is_bad(all_, all_.calls)) open(now);
  } else if (state_ == circuit_state::half_open) {
    --probing_;
    count(failed, slow);
    decide(now);
  }
}

void circuit::report_late_failure(epoch e, time_point now) noexcept {
  if (e != epoch_ || state_ != circuit_state::closed) return;
  advance(now);
  // The call that is now reported as failed was first counted as a success. If the window contains no success any more,
  // that success has left the window. So the call is counted as a new failed call.
  if (all_.failed == all_.calls) {
    count(true, false);
  } else {
    std::size_t i = current_;
    while (window_[i].failed == window_[i].calls) i = (i + buckets - 1) % buckets;
    ++window_[i].failed;
    ++all_.failed;
  }
  if (all_.calls >= least_calls_ && is_bad(all_, all_.calls)) open(now);
}

void circuit::leave(epoch e) noexcept {
  if (e == epoch_ && state_ == circuit_state::half_open) --probing_;
}

void circuit::reset(time_point now) noexcept {
  open_for_ = first_open_for_;
  change_to(circuit_state::closed, now);
}

circuit_state circuit::state(time_point now) const noexcept {
  return state_ == circuit_state::open && now >= open_until_ ? circuit_state::half_open : state_;
}

duration circuit::open_for(time_point now) const noexcept {
  if (state_ == circuit_state::forced_open) return duration::max();
  if (state_ != circuit_state::open || now >= open_until_) return duration::zero();
  return open_until_ - std::max(now, last_.at);
}

circuit::tally circuit::counted(time_point now) const noexcept {
  if (state_ != circuit_state::closed) return state_ == circuit_state::half_open ? all_ : tally{};
  circuit then{*this};
  then.advance(now);
  return then.all_;
}

/// Moves the window forward to `now`, and drops the calls of the buckets that have left the window.
void circuit::advance(time_point now) noexcept {
  if (now < bucket_end_) return;
  const auto over = static_cast<std::uint64_t>((now - bucket_end_) / bucket_length_) + 1;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(over, buckets); ++i) {
    current_ = (current_ + 1) % buckets;
    tally& oldest = window_[current_];
    all_.calls -= oldest.calls;
    all_.failed -= oldest.failed;
    all_.slow -= oldest.slow;
    oldest = {};
  }
  bucket_end_ = saturating_add(now, bucket_length_ - (now - bucket_end_) % bucket_length_);
}

void circuit::count(bool failed, bool slow) noexcept {
  for (tally* t : {&all_, &window_[current_]}) {
    ++t->calls;
    t->failed += failed ? 1 : 0;
    t->slow += slow ? 1 : 0;
  }
}

bool circuit::is_bad(const tally& t, std::uint64_t of) const noexcept {
  return t.failed * 100 >= failures_ * of || t.slow * 100 >= slow_percent_ * of;
}

/// Ends the half-open state as soon as the missing reports of probes can't change the result.
void circuit::decide(time_point now) noexcept {
  if (is_bad(all_, probes_)) return open(now);
  const std::uint64_t left = probes_ - all_.calls;
  if (is_bad({all_.calls, all_.failed + left, all_.slow + left}, probes_)) return;
  open_for_ = first_open_for_;
  change_to(circuit_state::closed, now);
}

void circuit::open(time_point now) noexcept {
  if (state_ == circuit_state::half_open) {
    open_for_ = open_for_ > most_open_for_ / 2 ? most_open_for_ : open_for_ * 2;
  }
  open_until_ = saturating_add(now, open_for_);
  change_to(circuit_state::open, now);
}

void circuit::change_to(circuit_state next, time_point now) noexcept {
  const circuit_state before = state_;
  state_ = next;
  ++epoch_;
  probing_ = 0;
  all_ = {};
  window_ = {};
  bucket_end_ = saturating_add(now, bucket_length_);
  if (next == before) return;
  const duration lasts = next == circuit_state::forced_open ? duration::max()
                         : next == circuit_state::open      ? open_for_
                                                            : duration::zero();
  last_ = {before, next, now, lasts, last_.number + 1};
}

}  // namespace canigo
