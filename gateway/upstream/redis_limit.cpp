#include "gateway/upstream/redis_limit.hpp"

#include "canigo/redis/error.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/redirect_error.hpp>
#include <asio/ssl/error.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

// A caller waits for an answer of Redis for at most `give_up`. If no answer comes, further callers fail immediately
// during the next `silent_for`.
constexpr duration give_up = 2s;
constexpr duration silent_for = 1s;

redis::failure_mode mode_of(const redis_failure& f) noexcept {
  switch (f.what) {
    case redis_failure::kind::open:
      return redis::failure_mode::open();
    case redis_failure::kind::local:
      return redis::failure_mode::local(f.share);
    case redis_failure::kind::closed:
      break;
  }
  return redis::failure_mode::closed();
}

redis::limiter_options options_of(const config& c, const upstream& u) {
  redis::limiter_options o;
  const bool is_closed = u.on_redis_failure.what == redis_failure::kind::closed;
  o.rates = u.rates;
  if (is_closed) o.concurrency = u.concurrency;
  for (const target& t : u.targets) {
    o.alternatives.push_back(
        {.name = t.name, .rates = t.rates, .concurrency = is_closed ? t.concurrency : unlimited, .prefer = t.prefer});
  }
  o.priorities = static_cast<int>(c.classes.size());
  o.queue_limit = 100'000;
  o.on_failure = mode_of(u.on_redis_failure);
  o.give_up = give_up;
  o.space = "canigo-gateway";
  return o;
}

/// Returns the request without its flow, because Redis does not know flows.
request for_all(request ask) noexcept {
  ask.flow = nullptr;
  return ask;
}

}  // namespace

namespace {

std::uint64_t own_part(const upstream& u, std::uint64_t of) noexcept {
  if (!u.shared || u.on_redis_failure.what != redis_failure::kind::local) return of;
  const double share = std::floor(static_cast<double>(of) * u.on_redis_failure.share);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share));
}

}  // namespace

std::uint64_t own_concurrency(const upstream& u) noexcept { return own_part(u, u.concurrency); }

std::uint64_t own_concurrency(const upstream& u, const target& t) noexcept { return own_part(u, t.concurrency); }

bool is_store_failure(const error_code& error) noexcept {
  // TLS errors also count as failures of the store. An unreadable or invalid TLS file causes errc::invalid_argument. An
  // invalid certificate causes an error of the SSL category.
  return error == errc::store_unavailable || error == errc::lease_lost || error == errc::invalid_argument ||
         error.category() == redis::error_category() || error.category() == redis::form_category() ||
         error.category() == net::error::get_ssl_category();
}

redis_limit::redis_limit(redis::client& store, const config& c, const upstream& u)
    : is_closed_{u.on_redis_failure.what == redis_failure::kind::closed},
      is_local_{u.on_redis_failure.what == redis_failure::kind::local},
      limit_{store, u.name, options_of(c, u)},
      most_{u.concurrency},
      targets_{u.targets} {}

net::awaitable<redis::permit> redis_limit::acquire(request ask, net::cancellation_slot slot, error_code& error,
                                                   time_point again_at) {
  ask = for_all(ask);
  error = {};
  const time_point now = clock::now();
  if (now.time_since_epoch().count() < silent_until_.load(std::memory_order_relaxed)) {
    error = errc::store_unavailable;
  } else {
    try {
      if (saturating_add(now, limit_.estimate(ask)) > ask.deadline) error = errc::deadline_unreachable;
    } catch (const system_error& e) {
      error = e.code();
    }
  }
  redis::permit granted;
  if (error) co_return granted;
  ask.deadline = std::min<time_point>(ask.deadline, again_at);
  granted = co_await limit_.async_acquire(
      ask, net::bind_cancellation_slot(slot, net::redirect_error(net::use_awaitable, error)));
  if (error == errc::store_unavailable) note_silence(clock::now() - now);
  // With `on_redis_failure` "open" or "local", a wait for Redis ends without a permit only at the call's deadline. So
  // the error is reported as a timeout.
  if (error == errc::store_unavailable && !is_closed_ && clock::now() >= ask.deadline) error = errc::timed_out;
  co_return granted;
}

net::awaitable<redis::permit> redis_limit::acquire_now(request ask) {
  redis::permit granted;
  try {
    std::optional<redis::permit> p = co_await limit_.acquire_now(for_all(ask));
    if (p) granted = std::move(*p);
  } catch (const system_error&) {  // a failure of Redis is treated as no grant
  }
  co_return granted;
}

/// Notes that Redis has not answered a caller within `waited`. If `waited` is at least `give_up`, further callers fail
/// immediately for a while; after a shorter wait, Redis may only be slow. Does nothing with `on_redis_failure` "open"
/// or "local", because calls then continue without Redis.
void redis_limit::note_silence(duration waited) noexcept {
  if (is_closed_ && waited >= give_up)
    silent_until_.store((clock::now() + silent_for).time_since_epoch().count(), std::memory_order_relaxed);
}

void redis_limit::pause_until(std::size_t target, time_point until) {
  if (!targets_.empty()) return limit_.alternative(target).extend_pause(until);
  // limit_.pause_until() would replace the present pause in Redis, even a longer pause that another instance has set.
  // So this code calls limit_.pause_until() only if the present pause may let a request be granted before `until`.
  if (saturating_add(clock::now(), least_wait()) < until) limit_.pause_until(until);
}

void redis_limit::change(const std::vector<rate_limit>& before, const upstream& next) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].rate != next.rates[i].rate) limit_.set_rate(i, next.rates[i].rate);
    if (before[i].burst != next.rates[i].burst) limit_.set_burst(i, next.rates[i].burst);
  }
  if (is_closed_ && std::exchange(most_, next.concurrency) != next.concurrency) {
    limit_.set_concurrency(next.concurrency);
  }
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    target& was = targets_[t];
    redis::alternative_handle of = limit_.alternative(t);
    for (std::size_t i = 0; i < was.rates.size(); ++i) {
      const rate_limit& r = next.targets[t].rates[i];
      if (was.rates[i].rate != r.rate) of.set_rate(i, r.rate);
      if (was.rates[i].burst != r.burst) of.set_burst(i, r.burst);
    }
    if (is_closed_ && was.concurrency != next.targets[t].concurrency) of.set_concurrency(next.targets[t].concurrency);
    was = next.targets[t];
  }
}

time_point redis_limit::paused_until(std::size_t target) const {
  const redis::limit_stats s = limit_.stats();
  return targets_.empty() ? s.paused_until : s.alternatives[target].paused_until;
}

duration redis_limit::least_wait() const {
  try {
    return limit_.estimate({});
  } catch (const system_error&) {
    return duration::zero();
  }
}

}  // namespace canigo::gateway
