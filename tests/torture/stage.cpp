#include "stage.hpp"

namespace torture {

using canigo::time_point;
using namespace std::chrono_literals;

net::cancellation_signal& stage::next_signal() { return signals_.at(used_signals_++); }

void stage::moment() {
  if (is_playing_) torment_->at_moment(*this);
}

/// One handler or, if none is ready, one jump of time; false if there is neither.
bool stage::advance(time_point until) {
  context_->restart();
  try {
    if (context_->poll_one() != 0) return true;
  } catch (const thrown&) {  // a handler may
    return true;
  }
  const time_point next = clock_.next();
  if (next == time_point::max() || next > until) return false;
  clock_.advance(next);
  return true;
}

void stage::pass(canigo::duration d) {
  const time_point until = clock_.now() + d;
  while (advance(until)) moment();
  clock_.advance(until);
}

void stage::settle() {
  while (advance(clock_.now())) moment();
}

void stage::expect_all_ended() {
  while (advance(time_point::max() - 1ns)) {
  }
  expect(counts_.ended == counts_.started, "somebody waits for ever");
  expect(counts_.called_twice == 0, "somebody was called twice");
  expect(counts_.dropped <= refused_, "somebody was not called");
  expect(canigo::time_source::of(io().get_executor()).idle(), "something is left armed");
}

void stage::expect_conserved(const canigo::queue_stats& s) {
  expect(s.waiting == 0, "somebody waits");
  expect(s.requested == s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.shed + s.stopped,
         "the counts do not add up");
}

void stage::expect_full(canigo::scheduler& s, std::uint64_t burst) {
  expect_conserved(s.stats());
  if (was_stopped_) return;
  pass(1h);
  expect(s.try_acquire({.tokens = burst}), "tokens are lost");
  expect(!s.try_acquire(), "there are too many tokens");
}

void stage::expect_at_rest(const canigo::pool_stats& s) {
  expect(s.submitted == s.succeeded + s.failed + s.cancelled + s.timed_out + s.stopped, "the ends do not add up");
  expect(s.working + s.queued + s.delayed + s.held_back == 0, "it is not at rest");
}

}  // namespace torture
