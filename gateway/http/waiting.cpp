#include "canigo/detail/context/suspend.hpp"
#include "canigo/error.hpp"

#include "gateway/http/connection.hpp"
#include "gateway/http/refusals.hpp"
#include "gateway/policy/limit_names.hpp"

#include <asio/associated_executor.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

// The wait of a request for its turn.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

/// Takes a tunnel if there is one at once. Why there is none comes to light when it is waited for.
bool is_free(semaphore& tunnels, const request& ask, permit& granted) {
  try {
    auto free = tunnels.try_acquire(ask);
    if (free) granted = std::move(*free);
    return free.has_value();
  } catch (const system_error&) {
    return false;
  }
}

/// A place, if there is one now. Who may not wait is served at once or not at all. The time of its arrival has passed
/// by then, so its deadline does not count.
permit taken_at_once(limiter& l, request ask, error_code& error) {
  ask.deadline = time_point::max();
  try {
    if (auto p = l.try_acquire(ask)) return std::move(*p);
  } catch (const system_error& e) {
    error = e.code();
  }
  return {};
}

/// Why a wait has ended, as its caller is told. A wait is cancelled if it would be too long, or at the end.
error_code judged(const error_code& error, bool is_draining) {
  if (error == net::error::operation_aborted && !is_draining) return errc::deadline_unreachable;
  // Another instance may have the time that is missing here.
  const bool is_late = error == errc::deadline_unreachable || error == errc::timed_out;
  return is_late && is_draining ? error_code{errc::stopped} : error;
}

}  // namespace

/// The pause before a call is sent again, or until its client leaves.
net::awaitable<void> connection::sleep_before_repeat(upstream_queue& q, int priority, duration d) {
  net::steady_timer delay{loop_.io, d};
  const wait_outside waiting{*this, q, priority, "retry"};
  sleeps_until_ = delay.expiry();
  error_code ignored;
  co_await delay.async_wait(
      net::bind_cancellation_slot(wait_.slot(), net::redirect_error(net::use_awaitable, ignored)));
}

/// From now on it asks for the share that its tenant has since a reload.
void connection::take_next_share(request& ask) noexcept {
  if (!caller_->next_share) return;
  caller_->share = std::move(caller_->next_share);
  ask.flow = caller_->share.get();
}

/// Notes which limit holds up this request, as soon as it is among those that wait.
void connection::look_at_what_binds(upstream_queue& q) {
  net::post(loop_.io, [&l = loop_, tag = tag_, &q] {
    connection* const c = l.requests.find(tag);
    if (c == nullptr || !c->waits()) return;
    std::string name = c->what_binds(q);
    if (!name.empty()) c->record_->bound_by = std::move(name);
  });
}

/// A limit or pause of its tenant, or what holds up the first of all.
std::string connection::what_binds(upstream_queue& q) const {
  const flow_stats own = caller_->share->stats();
  if (own.paused_until > clock::now()) return "paused";
  return own.is_held_back ? "tenant" : name_of(q.limit().why_waiting(), q.settings().rates);
}

/// Whether nobody wants the place any more: the client has left, or somebody else has ended its request.
bool connection::is_called_off() const noexcept {
  return has_left_ || ended_by_ != ender::nobody || caller_->dismissed;
}

/// Whether an attempt to get a place is to be followed by another one.
bool connection::asks_again(const error_code& error) const noexcept {
  return !error || (error == net::error::operation_aborted && caller_->next_share);
}

/// Asks for what a new request would ask for, if a reload has made a burst smaller. False: that is not less.
bool connection::asks_for_less(request& ask) const {
  const generation& now = *loop_.now;
  const auto queue = now.queue_of(caller_->queue.settings().name);
  const auto tenant = now.tenant_of(caller_->tenant);
  return queue != nullptr && tenant && queue->lower_to_most(ask, *tenant);
}

/// What a wait for a place comes to. There is a permit unless there is an error.
struct wait_result {
  error_code error;
  permit granted;
};

/// A wait for a place, until `stop`. Its frame and the waiter are all that a request that waits pays for.
template <class Limit>
net::awaitable<wait_result> place_of(Limit& limit, const request& ask, net::cancellation_slot stop) {
  using canigo::detail::park;
  using canigo::detail::park_returns;
  const auto start = [&limit, &ask, stop](auto handler) {
    const auto executor = net::get_associated_executor(handler);
    auto finish = [h = std::move(handler)](error_code e, permit p) mutable {
      std::move(h)(wait_result{e, std::move(p)});
    };
    limit.async_acquire(ask, net::bind_executor(executor, net::bind_cancellation_slot(stop, std::move(finish))));
  };
  if constexpr (park_returns<wait_result>) {
    co_return co_await park<wait_result>(start);
  } else {
    co_await park<wait_result>(start);
    std::terminate();
  }
}

/// Waits for the limit of all instances, which there is.
net::awaitable<redis::permit> connection::get_shared(upstream_queue& q, const request& ask, call_record& r,
                                                     error_code& error) {
  constexpr duration usual_round_trip = std::chrono::milliseconds{10};
  redis::permit granted;
  const time_point asked = clock::now();
  const wait_outside waiting{*this, q, ask.priority, "shared"};
  granted = co_await q.limits().shared()->acquire(ask, wait_.slot(), error);
  if (clock::now() - asked > usual_round_trip) r.bound_by = "shared";
  co_return granted;
}

/// Makes a place of what the limit of this instance has granted. Empty without an error: things have changed meanwhile,
/// and the request is to ask again.
net::awaitable<upstream_place> connection::enter(upstream_queue& q, const request& ask, call_record& r, permit local,
                                                 error_code& error) {
  upstream_place granted;
  // The grant may have come when the client left. Nothing is consumed all the same.
  if (is_called_off()) {
    q.limits().give_back(local);
    co_return granted;
  }
  redis::permit shared;
  if (q.limits().shared() != nullptr) {
    auto asking_all = get_shared(q, ask, r, error);
    shared = co_await std::move(asking_all);
  }
  if (error || is_called_off()) {
    q.limits().give_back(local, shared);
  } else if (auto entered = q.limits().enter(std::move(local), std::move(shared))) {
    granted = std::move(*entered);
  }
  co_return granted;
}

/// Waits for a place. False if there is none: the client has left, or `why` says why not.
net::awaitable<bool> connection::get_place(upstream_queue& q, request& ask, call_record& r, upstream_place& granted,
                                           std::optional<refusal>& why) {
  const time_point start = clock::now();
  error_code error;
  while (!granted && !is_called_off() && asks_again(error)) {
    error = {};
    take_next_share(ask);
    permit local = taken_at_once(q.limit(), ask, error);
    if (!local && !error) {
      if (input_.empty()) input_.shrink();
      look_at_what_binds(q);
      const wait_here waiting{*this};
      // The long wait is here, and not in a function of its own, which saves memory of each waiter.
      auto acquiring = place_of(q.limit(), ask, wait_.slot());
      wait_result waited = co_await std::move(acquiring);
      error = waited.error;
      local = std::move(waited.granted);
    }
    if (!error) {
      auto entering = enter(q, ask, r, std::move(local), error);
      granted = co_await std::move(entering);
    }
    if (error == errc::too_large && asks_for_less(ask)) error = {};
    ask.since = std::min<time_point>(ask.since, start);  // it keeps its place in the line if it asks again
  }
  r.waited += clock::now() - start;
  if (granted) co_return true;
  if (is_called_off()) {
    why = why_called_off();
    co_return false;
  }
  why = refusal_of(judged(error, service_.is_draining()), q, ask);
  co_return false;
}

/// Nothing: the client has left, and hears nothing.
std::optional<refusal> connection::why_called_off() const {
  if (has_left_) return std::nullopt;
  return ended_by_ != ender::nobody ? why_ended() : *caller_->dismissed;
}

/// Waits for a place of the host and one of the tunnels. Nobody holds one while it waits for the other: those who wait
/// for a slow host would keep the tunnels from all others.
net::awaitable<bool> connection::get_tunnel(forwarded_hosts& hosts, upstream_queue& q, request& ask, call_record& r,
                                            upstream_place& granted, permit& tunnel, std::optional<refusal>& why) {
  semaphore& tunnels = hosts.tunnels();
  const std::shared_ptr<const flow> share = hosts.share_of_tunnels(q.settings().name, caller_->tenant);
  const request place{.priority = ask.priority, .deadline = ask.deadline, .flow = share.get(), .tag = ask.tag};
  for (;;) {
    const bool is_granted = co_await get_place(q, ask, r, granted, why);
    if (!is_granted) co_return false;
    if (is_free(tunnels, place, tunnel)) co_return true;
    granted.give_back();
    const time_point start = clock::now();
    error_code error;
    r.bound_by = "tunnels";
    {
      const wait_outside waiting{*this, q, ask.priority, "tunnels"};
      auto acquiring = place_of(tunnels, place, wait_.slot());
      wait_result waited = co_await std::move(acquiring);
      error = waited.error;
      tunnel = std::move(waited.granted);
    }
    r.waited += clock::now() - start;
    if (is_called_off()) {
      why = why_called_off();
      co_return false;
    }
    if (error && asks_again(error)) continue;
    if (error) {
      why = refusal_of(judged(error, service_.is_draining()), q, ask);
      co_return false;
    }
    take_next_share(ask);
    granted = co_await spare_place(q, ask);
    if (granted) co_return true;
    tunnel.release();
  }
}

}  // namespace canigo::gateway
