#include "gateway/call/call_services.hpp"
#include "gateway/call/turn.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

// The functions of turn that wait for the limit in Redis that all instances share, or that return an upstream_place
// without a wait in a queue.
//
// g++ 12 may destroy a temporary of a co_await expression twice. So this file has no co_await expression with a
// temporary that needs a destructor.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

/// Whether the limit can serve the request before its deadline.
bool can_serve_in_time(const limiter& l, const request& ask) {
  try {
    return saturating_add(clock::now(), l.estimate(ask)) < ask.deadline;
  } catch (const system_error&) {  // the limit can never grant `ask`, for example after a reload lowered a burst
    return false;
  }
}

}  // namespace

/// Waits for a grant by the limit in Redis that all instances share, and makes an upstream_place from `local` and that
/// grant. Precondition: the upstream has a limit in Redis. `is_first`: `local` is a permit of the sticky target, to
/// which all calls with the same key go. Then the call first waits up to a second for that target alone.
net::awaitable<void> turn::enter_shared(permit& local, bool is_first, shared_tries& tries, error_code& error,
                                        boxed<upstream_place>& granted) {
  constexpr duration usual_round_trip = std::chrono::milliseconds{10}, outage = std::chrono::milliseconds{150};
  redis_limit& all = *queue().limits().shared();
  redis::permit shared;
  duration waited{};
  {
    const time_point asked = clock::now();
    const outside waiting{*this, "shared", true};
    if (is_first) {
      request ask = ask_;
      ask.alternatives = target_set{1} << local.alternative();
      ask.deadline = std::min<time_point>(ask.deadline, asked + longest_wait_for_first);
      shared = co_await all.acquire(ask, wait_.slot(), error);
      const bool is_too_late = error == errc::timed_out || error == errc::deadline_unreachable;
      if (is_too_late && clock::now() < ask_.deadline) error.clear();
    }
    while (!shared && !error) {
      time_point again_at = time_point::max();
      request ask = queue().limits().ask_all(ask_, local, again_at);
      tries.full &= ~(target_set{1} << local.alternative());
      const target_set others = ask.alternatives & ~tries.full;
      if (others != 0) ask.alternatives = others;
      shared = co_await all.acquire(ask, wait_.slot(), error, again_at);
      const time_point now = clock::now();
      const bool is_too_late = error == errc::timed_out || error == errc::deadline_unreachable;
      // The wait ended at `again_at`, because another target may serve calls now. So the call asks Redis again.
      if (error == errc::timed_out && now >= again_at && now < ask_.deadline) {
        error.clear();
      } else if (is_too_late && tries.full != 0 && now < ask_.deadline) {
        // The other targets can't serve the call in time. So the call waits for a place at a target that was full.
        error.clear();
        ask_.alternatives = std::exchange(tries.full, 0);
        break;
      }
    }
    waited = clock::now() - asked;
    if (waited > usual_round_trip) record_.bound_by = "shared";
  }
  if (!shared && !error) {
    queue().limits().give_back(local);
    co_return;
  }
  // Redis did not answer, so only the rates of this instance limit the call. The rates have refilled while calls waited
  // for Redis, so all of these calls could start at the same time. To prevent this, the call requests tokens from the
  // rates a second time, if the rates can serve the call in time. The tokens of the call's first grant are not
  // refunded. If they were, other waiting calls could use them, and start at the same time.
  if (waited > outage && all.is_unlimited(shared) && !is_called_off() && !tries.has_asked_rates_again &&
      can_serve_in_time(queue().limit(), ask_)) {
    tries.has_asked_rates_again = true;
    local.release();
    co_return;
  }
  enter(local, std::move(shared), error, tries.full, granted);
}

/// Makes an upstream_place from the permits, and stores it in `granted`. After an error, or if the call was called off,
/// gives the permits back instead. `granted` also stays empty if the circuit breaker has opened since the permits were
/// granted, or if the target's cap is used up. A target whose cap is used up is added to `full`.
void turn::enter(permit& local, redis::permit shared, const error_code& error, target_set& full,
                 boxed<upstream_place>& granted) {
  if (!local) return;
  // If the client has disconnected just before the grant, the permits are given back, with their tokens.
  if (error || is_called_off()) {
    queue().limits().give_back(local, shared);
  } else {
    granted = queue().limits().enter(std::move(local), std::move(shared), full);
  }
}

net::awaitable<upstream_place> turn::spare_place() {
  upstream_place granted;
  take_next_terms();
  upstream_limit& limits = queue().limits();
  if (limits.now().breaker != circuit_state::closed) co_return granted;
  permit local;
  try {
    if (auto p = queue().limit().try_acquire(ask_)) local = std::move(*p);
  } catch (const system_error&) {  // the limit was stopped, or a reload made it too small for the request
    co_return granted;
  }
  if (!local) co_return granted;
  redis::permit shared;
  if (limits.shared() != nullptr) {
    time_point again_at = time_point::max();
    shared = co_await limits.shared()->acquire_now(limits.ask_all(ask_, local, again_at));
    if (!shared) {
      limits.give_back(local);
      co_return granted;
    }
  }
  target_set full = 0;
  if (auto entered = limits.enter(std::move(local), std::move(shared), full)) granted = std::move(*entered);
  co_return granted;
}

net::awaitable<upstream_place> turn::next_place() {
  const here waiting{*this};
  auto asking = spare_place();
  upstream_place granted = co_await std::move(asking);
  if (granted && is_called_off()) granted.give_back();
  co_return granted;
}

}  // namespace canigo::gateway
