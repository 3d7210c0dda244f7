#include "canigo/error.hpp"

#include "gateway/http/connection.hpp"
#include "gateway/policy/quota_fields.hpp"
#include "gateway/policy/repeat_rules.hpp"
#include "gateway/upstream/exchange.hpp"

#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

// One attempt at an upstream, and what the upstream's limits, pauses and breaker learn of it.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

/// Of an attempt that says something about the upstream, although there is no response.
std::optional<attempt_end_kind> kind_of_failure(attempt_end end) {
  switch (end) {
    case attempt_end::unreachable:
    case attempt_end::connect_timed_out:
      return attempt_end_kind::unreachable;
    case attempt_end::lost:
    case attempt_end::first_byte_late:
    case attempt_end::bad_response:
      return attempt_end_kind::lost;
    default:
      return std::nullopt;
  }
}

/// Two attempts for the same request, of which one answers. On one loop.
class race {
 public:
  race(const net::any_io_executor& loop, exchange& first) : bell_{loop}, runners_{&first, nullptr} {
    judge_ = first.wants_again;
    prepare(first);
  }
  ~race() {
    runners_[0]->may_answer = nullptr;
    runners_[0]->wants_again = std::move(judge_);
    runners_[0]->beside = nullptr;
  }
  race(const race&) = delete;
  race& operator=(const race&) = delete;

  /// The second attempt begins.
  exchange& enter() {
    second_.emplace(*runners_[0]);
    exchange& copy = *second_;
    copy.first_byte.reset();
    copy.connect_time = {};
    copy.over = nullptr;
    runners_[1] = &copy;
    prepare(copy);
    copy.beside = runners_[0];
    runners_[0]->beside = &copy;
    return copy;
  }
  auto ending(std::size_t i) {
    return [this, i](const std::exception_ptr& error, attempt_end end) {
      ends_[i] = error ? attempt_end::lost : end;
      last_ = i;
      bell_.cancel();
    };
  }

  /// Until something happens, and no longer than `limit`.
  net::awaitable<void> wait(duration limit) {
    bell_.expires_at(saturating_add(clock::now(), limit));
    error_code ignored;
    co_await bell_.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }
  /// Nobody has a response yet, and nobody has failed.
  bool is_open() const noexcept { return winner_ == nullptr && !ends_[0]; }
  bool is_running() const noexcept { return !ends_[0] || (runners_[1] != nullptr && !ends_[1]); }
  bool has_second_won() const noexcept { return winner_ != nullptr && winner_ == runners_[1]; }
  /// Whose end is that of the race, 0 or 1: the one that answers. Without an answer one that the upstream has seen says
  /// more than one that it has not.
  std::size_t decisive() const noexcept {
    if (winner_ != nullptr || !ends_[1]) return has_second_won() ? 1 : 0;
    const bool first_is_unsent = nothing_was_sent(*ends_[0]);
    return first_is_unsent == nothing_was_sent(*ends_[1]) ? last_ : first_is_unsent ? 1 : 0;
  }
  attempt_end end_of_other() const noexcept { return *ends_[1 - decisive()]; }

  /// How the race has ended, with what is known of it in `x`.
  attempt_end take_result(exchange& x) {
    const std::size_t of = decisive();
    if (second_) x.connect_time += second_->connect_time;
    if (of == 1) {
      x.status = second_->status;
      x.has_begun = second_->has_begun;
      x.keeps_client = second_->keeps_client;
      x.first_byte = second_->first_byte;
      x.failure = second_->failure;
      x.lacks_means = second_->lacks_means;
      x.bytes_out = second_->bytes_out;
    }
    // It made way for the other one, which has not answered either: nobody has asked yet whether it is sent again.
    return *ends_[of] == attempt_end::put_back && made_way_[of] ? attempt_end::lost : *ends_[of];
  }

 private:
  void prepare(exchange& x) {
    x.may_answer = [this, &x] { return claim(x); };
    // While the other one runs, a bad response is not the answer.
    x.wants_again = [this, own = &x == runners_[0] ? std::size_t{0} : std::size_t{1}](const message_head& h) {
      if (winner_ != nullptr) return false;
      const std::size_t other = 1 - own;
      const bool other_runs = runners_[other] != nullptr && !ends_[other] && !is_put_back_[other];
      const bool is_bad = h.status == 429 || counts_as_failure({attempt_end_kind::answered, h.status, false});
      made_way_[own] = is_bad && other_runs;
      is_put_back_[own] = made_way_[own] || (judge_ && judge_(h));
      return is_put_back_[own];
    };
  }
  bool claim(exchange& x) {
    if (winner_ != nullptr) return false;
    winner_ = &x;
    if (exchange* const other = &x == runners_[0] ? runners_[1] : runners_[0]) other->drop();
    bell_.cancel();
    return true;
  }

  net::steady_timer bell_;
  std::array<exchange*, 2> runners_;
  std::optional<exchange> second_;
  std::function<bool(const message_head&)> judge_;
  std::array<std::optional<attempt_end>, 2> ends_;
  std::array<bool, 2> is_put_back_{};  // a response of it came, and does not go to the client
  std::array<bool, 2> made_way_{};     // because the other one was still on
  std::size_t last_ = 0;
  exchange* winner_ = nullptr;
};

}  // namespace

/// The breaker learns how a call fares. If it opens, some wait in vain.
void connection::report(upstream_queue& q, upstream_place& held, const attempt_result& result) {
  if (held.report(counts_as_failure(result))) service_.end_long_waits(q, duration::max());
}

/// What the head of a response says of the upstream, whatever becomes of the request.
void connection::learn(upstream_queue& q, std::size_t tenant, upstream_place& held, const message_head& h) {
  const auto after = read_retry_after(h, std::chrono::system_clock::now());
  const attempt_result result{attempt_end_kind::answered, h.status, after.has_value()};
  report(q, held, result);
  if (const quota_left left = read_quota(h); left != quota_left{}) q.learn(left);
  // Where tenants bring their own credential, the pause is only theirs.
  if (after && asks_for_pause(result)) service_.pause(q, tenant, clock::now() + *after, *record_, h.status);
}

/// Nothing rings when any part of the process gives a descriptor back, so one looks again after a while.
net::awaitable<void> connection::wait_for_means(time_point last_try) {
  constexpr duration between_looks = std::chrono::milliseconds{20};
  service_.close_idle_links();
  net::steady_timer bell{loop_.io, std::min(last_try, clock::now() + between_looks)};
  error_code ignored;
  co_await bell.async_wait(net::redirect_error(net::use_awaitable, ignored));
}

/// One attempt. It waits for a descriptor as long as it may wait for a connection.
net::awaitable<attempt_end> connection::attempt_at(upstream_queue& q, std::size_t tenant, exchange& x,
                                                   upstream_place& held) {
  x.sees_head = [this, &q, tenant, &held, since = clock::now()](const message_head& h) {
    const time_point now = clock::now();
    if (q.settings().hedge_after) q.limits().latencies().record(now, now - since);
    learn(q, tenant, held, h);
  };
  const auto operation = [&x](link& l) { return attempt(x, l); };
  const time_point last_try = saturating_add(clock::now(), q.settings().timeout.connect);
  attempt_end end = attempt_end::unreachable;
  const bool is_tunnel = x.tunnelled != nullptr;
  service_.counts.running.fetch_add(1, std::memory_order_relaxed);
  if (is_tunnel) service_.counts.tunnels.fetch_add(1, std::memory_order_relaxed);
  try {
    for (;;) {
      x.lacks_means = false;
      {
        link_pool::use connections{q.pool(loop_.index)};
        end = co_await connections.links().run(operation);
      }
      if (!x.lacks_means || x.is_aborted || clock::now() >= last_try) break;
      co_await wait_for_means(last_try);
    }
  } catch (const std::exception&) {  // the pool has stopped, or there is no memory
    end = x.has_begun ? attempt_end::cut : attempt_end::lost;
  }
  service_.counts.running.fetch_sub(1, std::memory_order_relaxed);
  if (is_tunnel) service_.counts.tunnels.fetch_sub(1, std::memory_order_relaxed);
  x.sees_head = nullptr;
  if (const auto kind = kind_of_failure(end); kind && !x.lacks_means) report(q, held, {*kind, 0, false});
  co_return end;
}

/// A place that is there at once. A hedge takes nobody's turn.
net::awaitable<upstream_place> connection::spare_place(upstream_queue& q, const request& ask) {
  upstream_place granted;
  permit local;
  if (q.limits().now().breaker != circuit_state::closed) co_return granted;
  try {
    if (auto p = q.limit().try_acquire(ask)) local = std::move(*p);
  } catch (const system_error&) {  // it ends, or the limit is less than it was
    co_return granted;
  }
  if (!local) co_return granted;
  redis::permit shared;
  if (q.limits().shared() != nullptr) {
    shared = co_await q.limits().shared()->acquire_now(ask);
    if (!shared) {
      q.limits().give_back(local);
      co_return granted;
    }
  }
  if (auto entered = q.limits().enter(std::move(local), std::move(shared))) granted = std::move(*entered);
  co_return granted;
}

/// The same as attempt_at(), with a second attempt beside it if no response comes for a while. The first of them with a
/// sound response answers; the other is cancelled and awaited.
net::awaitable<attempt_end> connection::attempt_hedged(upstream_queue& q, std::size_t tenant, exchange& x,
                                                       upstream_place& held, request& ask, call_record& r,
                                                       const std::function<void()>& lost) {
  const std::optional<duration> after = q.hedge_after();
  if (!after) co_return co_await attempt_at(q, tenant, x, held);
  race all{loop_.io.get_executor(), x};
  net::co_spawn(loop_.io, attempt_at(q, tenant, x, held), all.ending(0));
  if (all.is_open()) co_await all.wait(*after);
  upstream_place own;
  if (all.is_open() && !has_left_ && q.limits().hedges().try_take()) {
    take_next_share(ask);
    own = co_await spare_place(q, ask);
  }
  const bool is_hedged = own && all.is_open() && !has_left_;
  if (is_hedged) {
    ++r.attempts;
    service_.counts.hedges.fetch_add(1, std::memory_order_relaxed);
    own.watch(loop_.io.get_executor(), lost);
    exchange& copy = all.enter();
    net::co_spawn(loop_.io, attempt_at(q, tenant, copy, own), all.ending(1));
  } else if (own) {
    own.give_back();
  }
  while (all.is_running()) co_await all.wait(duration::max());
  const attempt_end end = all.take_result(x);
  if (!is_hedged) co_return end;
  if (all.has_second_won()) service_.counts.hedges_won.fetch_add(1, std::memory_order_relaxed);
  if (all.decisive() == 1) std::swap(held, own);
  if (nothing_was_sent(all.end_of_other())) own.give_back();
  co_return end;
}

}  // namespace canigo::gateway
