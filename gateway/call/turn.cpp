#include "gateway/call/turn.hpp"

#include "canigo/detail/context/suspend.hpp"

#include "gateway/call/call.hpp"
#include "gateway/call/refusals.hpp"
#include "gateway/policy/destination.hpp"
#include "gateway/policy/limit_names.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

// g++ 12 may destroy a temporary of a co_await expression twice. So no such temporary in this file needs a destructor.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

/// Takes a permit for a tunnel into `granted` if one is free now. Returns whether it took a permit. After an error it
/// also returns false, because the wait that follows reports the same error.
bool is_free(semaphore& tunnels, const request& ask, permit& granted) {
  try {
    auto free = tunnels.try_acquire(ask);
    if (free) granted = std::move(*free);
    return free.has_value();
  } catch (const system_error&) {
    return false;
  }
}

/// Takes a permit if one is free now; otherwise returns an empty permit. Ignores the deadline of `ask`, because it may
/// have passed already: if a call may not wait, its deadline is its arrival time.
permit taken_at_once(limiter& l, request ask, error_code& error) {
  ask.deadline = time_point::max();
  try {
    if (auto p = l.try_acquire(ask)) return std::move(*p);
  } catch (const system_error& e) {
    error = e.code();
  }
  return {};
}

/// Converts the error of a wait to the error that the client gets. A cancelled wait becomes errc::deadline_unreachable,
/// unless the process is draining.
error_code judged(const error_code& error, bool is_draining) {
  if (error == net::error::operation_aborted && !is_draining) return errc::deadline_unreachable;
  // During a drain, waits are shorter than usual. Another instance may allow the full wait, so the client gets an error
  // that names the drain.
  const bool is_late = error == errc::deadline_unreachable || error == errc::timed_out;
  return is_late && is_draining ? error_code{errc::stopped} : error;
}

/// Waits in the queue of a limit. The wait allocates no memory besides the waiter.
template <class Limit>
auto wait_for_place(Limit& limit, const request& ask, wait_result& result, net::cancellation_slot stop) {
  const auto start = [&limit, &ask](auto handler) { limit.async_acquire(ask, std::move(handler)); };
  return canigo::detail::park_here(result, stop, start);
}

}  // namespace

turn::outside::outside(turn& t, const char* what_for, bool has_place) noexcept
    : waiting_{t}, home_{t}, has_place_{has_place} {
  home_.waits_for_ = what_for;
  home_.queue().limits().outside().enter(home_.ask_.priority, has_place_);
}

turn::outside::~outside() {
  home_.queue().limits().outside().leave(home_.ask_.priority, has_place_);
  home_.waits_for_ = "";
}

void turn::begin(const request& ask, bool is_for_tunnel) {
  ask_ = ask;
  is_for_tunnel_ = is_for_tunnel;
  share_ = queue().share(route_.tenant);
  is_on_ = true;
}

void turn::choose(target_set of, std::optional<std::size_t> first) noexcept {
  ask_.alternatives = of;
  next_targets_ = 0;
  first_.reset();
  if (first) first_ = static_cast<std::uint8_t>(*first);
}

void turn::move_to(target_set of) noexcept {
  if (!waits_ || of == ask_.alternatives) return;
  next_targets_ = of;
  // The delay before a retry does not depend on the targets, so a change of the targets does not end it.
  if (waits_for_ != std::string_view{"retry"}) wake();
}

refusal turn::why_ended() const { return ended_by_ == call_ender::operator_ ? ended_by_operator() : ended_by_drain(); }

void turn::end_by_client() noexcept {
  has_left_ = true;
  wake();
}

void turn::end_by(call_ender who) noexcept {
  if (ended_by_ == call_ender::none) ended_by_ = who;
  wake();
}

void turn::dismiss(refusal why) {
  if (!waits_) return;
  dismissed_ = std::make_unique<refusal>(std::move(why));
  wake();
}

void turn::wake() noexcept {
  if (waits_) wait_.emit(net::cancellation_type::terminal);
}

void turn::wake_if_asleep_until_after(time_point end) noexcept {
  if (sleeps_until_ > end) wake();
}

void turn::follow(const config_snapshot& next, const std::shared_ptr<void>& until_moved) noexcept {
  if (!is_on_) return;
  const upstream& to = queue().settings();
  const std::shared_ptr<upstream_queue> successor = next.queue_of(to.name);
  const auto tenant = next.tenant_of(record_.tenant);
  // While the client sent its body, one reload may have removed the upstream, and a later reload may have added it
  // again. The call can't move to the new upstream's limit.
  const bool has_new_limit = successor != nullptr && &successor->limits() != &queue().limits();
  // In forward mode, the new configuration may allow this host, but have no queue for the host yet. The call then stays
  // in the queue of the old configuration.
  const bool is_new_host =
      successor == nullptr && is_host(to) && next.hosts() != nullptr && next.hosts()->allows(to.url);
  if (successor == nullptr && !is_new_host) {
    dismissed_ = std::make_unique<refusal>(
        refusal{503, "no_route", "the upstream is no longer in the configuration", std::chrono::seconds{1}});
  } else if (has_new_limit) {
    dismissed_ = std::make_unique<refusal>(
        refusal{503, "no_route", "the upstream was removed from the configuration meanwhile", std::chrono::seconds{1}});
  } else if (!tenant) {
    dismissed_ =
        std::make_unique<refusal>(refusal{401, "unauthorized", "the tenant is no longer in the configuration"});
  } else if (is_for_tunnel_ && next.settings.forward && next.settings.forward->tunnels == 0) {
    dismissed_ = std::make_unique<refusal>(refuse_tunnel());
  } else {
    auto share = successor == nullptr ? share_ : successor->share(*tenant);
    if (!share || share == share_) return;
    next_share_ = std::move(share);
  }
  if (!waits_) return;
  until_moved_ = until_moved;
  wake();
}

net::awaitable<void> turn::sleep(duration d) {
  net::steady_timer delay{loop_.io, d};
  const outside waiting{*this, "retry"};
  sleeps_until_ = delay.expiry();
  error_code ignored;
  co_await delay.async_wait(
      net::bind_cancellation_slot(wait_.slot(), net::redirect_error(net::use_awaitable, ignored)));
}

net::awaitable<void> turn::wait_outside(limiter& of, const char* what_for, time_point deadline, time_point until,
                                        wait_result& got) {
  const time_point start = clock::now();
  const request place{.priority = ask_.priority, .deadline = deadline, .tag = ask_.tag, .since = ask_.since};
  {
    const outside waiting{*this, what_for};
    sleeps_until_ = until;
    co_await wait_for_place(of, place, got, wait_.slot());
  }
  record_.bound_by = what_for;
  record_.waited += clock::now() - start;
  ask_.since = std::min<time_point>(ask_.since, start);
}

/// Changes the call's next request to the limit if needed: after a reload, the request gets the new flow. After
/// move_to(), the request gets the new targets.
void turn::take_next_terms() noexcept {
  if (const target_set other = std::exchange(next_targets_, 0)) ask_.alternatives = other;
  if (!next_share_) return;
  share_ = std::move(next_share_);
  ask_.flow = share_.get();
}

/// Posts a function that stores in the record which limit delays this call. The function runs later, because the call
/// enters the queue only after look_at_what_binds() has returned.
void turn::look_at_what_binds() {
  net::post(loop_.io, [&l = loop_, tag = ask_.tag] {
    const call* const c = l.requests.find(tag);
    if (c == nullptr || !c->current_turn().waits()) return;
    const turn& t = c->current_turn();
    std::string name = t.what_binds();
    if (!name.empty()) t.record_.bound_by = std::move(name);
  });
}

/// Returns what delays this call: "paused" if its tenant is paused, and "tenant" if its tenant has reached its own
/// limits. Otherwise returns the name of the limit that delays the first waiter of the upstream's queue.
std::string turn::what_binds() const {
  const flow_stats own = share_->stats();
  if (own.paused_until > clock::now()) return "paused";
  return own.is_held_back ? "tenant" : queue().name_of_limit(queue().limit().why_waiting());
}

std::optional<refusal> turn::why_called_off() const {
  if (has_left_) return std::nullopt;
  return ended_by_ != call_ender::none ? why_ended() : *dismissed_;
}

/// Whether the call must request a place again. The call must do so if its last request ended without an error, or was
/// cancelled to change the call's flow or targets.
bool turn::asks_again(const error_code& error) const noexcept {
  return !error || (error == net::error::operation_aborted && (next_share_ || next_targets_ != 0));
}

/// If a reload has made a burst smaller than the call's request, lowers the request to the burst. Returns false if the
/// request was not lowered.
bool turn::asks_for_less() {
  const config_snapshot& now = *loop_.now;
  const auto successor = now.queue_of(queue().settings().name);
  const auto tenant = now.tenant_of(record_.tenant);
  return successor != nullptr && tenant && successor->lower_to_most(ask_, *tenant);
}

/// Waits up to a second for the call's sticky target, to which all calls with the same key go. If that target has no
/// free place in time, `got` holds no permit.
net::awaitable<void> turn::get_first(wait_result& got) {
  const target_set all = ask_.alternatives;
  const deadline_point deadline = ask_.deadline;
  ask_.alternatives = target_set{1} << *first_;
  ask_.deadline = std::min<time_point>(deadline, clock::now() + longest_wait_for_first);
  got.granted = taken_at_once(queue().limit(), ask_, got.error);
  if (!got.granted && !got.error) {
    look_at_what_binds();
    const here waiting{*this};
    co_await wait_for_place(queue().limit(), ask_, got, wait_.slot());
  }
  ask_.alternatives = all;
  ask_.deadline = deadline;
  first_.reset();
}

/// Takes a place at the upstream if one is free now, as it is for most calls. This function is no coroutine, so these
/// calls do not allocate the coroutine frame of get_place().
bool turn::take_place(boxed<upstream_place>& granted) {
  if (first_ || is_called_off() || queue().limits().shared() != nullptr) return false;
  take_next_terms();
  error_code error;
  permit local = taken_at_once(queue().limit(), ask_, error);
  if (!local) return false;
  target_set full = 0;
  enter(local, {}, error, full, granted);
  ask_.since = std::min<time_point>(ask_.since, clock::now());
  return static_cast<bool>(granted);
}

net::awaitable<bool> turn::get_place(read_buffer& input, boxed<upstream_place>& granted, boxed<refusal>& why) {
  const time_point start = clock::now();
  shared_tries tries;
  wait_result waited;
  if (first_) {
    auto getting = get_first(waited);
    co_await std::move(getting);
  }
  waited.error = {};
  bool is_first = static_cast<bool>(waited.granted);
  while (!granted && !is_called_off() && asks_again(waited.error)) {
    waited.error = {};
    take_next_terms();
    if (!waited.granted) waited.granted = taken_at_once(queue().limit(), ask_, waited.error);
    if (!waited.granted && !waited.error) {
      if (input.empty()) input.shrink();
      look_at_what_binds();
      const here waiting{*this};
      // This wait may be long. It has no coroutine of its own, so a waiting call needs one coroutine frame less.
      co_await wait_for_place(queue().limit(), ask_, waited, wait_.slot());
    }
    if (!waited.error && !is_called_off() && queue().limits().shared() != nullptr) {
      auto asking_all = enter_shared(waited.granted, std::exchange(is_first, false), tries, waited.error, granted);
      co_await std::move(asking_all);
    } else {
      enter(waited.granted, {}, waited.error, tries.full, granted);
    }
    if (waited.error == errc::too_large && asks_for_less()) waited.error = {};
    ask_.since = std::min<time_point>(ask_.since, start);  // a repeated request keeps the call's position in the queue
  }
  record_.waited += clock::now() - start;
  if (granted) co_return true;
  if (waited.granted) queue().limits().give_back(waited.granted);
  why = is_called_off() ? why_called_off()
                        : refusal_of(judged(waited.error, services_.is_draining()), queue(), route_.tenant, ask_);
  co_return false;
}

/// Waits for a place at the host and for a tunnel. The call gives back the place before it waits for a tunnel, and the
/// tunnel before it waits for a place. Otherwise calls to a slow host would occupy the tunnels that calls to other
/// hosts need.
net::awaitable<bool> turn::get_tunnel(forwarded_hosts& hosts, read_buffer& input, boxed<upstream_place>& granted,
                                      permit& tunnel, boxed<refusal>& why) {
  semaphore& tunnels = hosts.tunnels();
  const std::shared_ptr<const flow> share = hosts.share_of_tunnels(queue().settings().name, record_.tenant);
  const request place{.priority = ask_.priority, .deadline = ask_.deadline, .flow = share.get(), .tag = ask_.tag};
  for (;;) {
    auto getting = get_place(input, granted, why);
    const bool is_granted = co_await std::move(getting);
    if (!is_granted) co_return false;
    if (is_free(tunnels, place, tunnel)) co_return true;
    granted->give_back();
    granted.reset();
    const time_point start = clock::now();
    error_code error;
    record_.bound_by = "tunnels";
    {
      const outside waiting{*this, "tunnels"};
      wait_result waited;
      co_await wait_for_place(tunnels, place, waited, wait_.slot());
      error = waited.error;
      tunnel = std::move(waited.granted);
    }
    record_.waited += clock::now() - start;
    if (is_called_off()) {
      why = why_called_off();
      co_return false;
    }
    if (error && asks_again(error)) continue;
    if (error) {
      why = refusal_of(judged(error, services_.is_draining()), queue(), route_.tenant, ask_);
      co_return false;
    }
    auto asking = spare_place();
    upstream_place spare = co_await std::move(asking);
    if (spare) {
      granted = std::move(spare);
      co_return true;
    }
    tunnel.release();
  }
}

}  // namespace canigo::gateway
