#include "gateway/call/attempt.hpp"

#include "canigo/error.hpp"

#include "gateway/call/attempt_meaning.hpp"
#include "gateway/policy/target_choice.hpp"

#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

/// Counts an attempt as running during the lifetime of this object.
class counted {
 public:
  counted(call_counts& counts, bool is_tunnel) noexcept : counts_{counts}, tunnels_{is_tunnel ? 1 : 0} {
    counts_.running.fetch_add(1, std::memory_order_relaxed);
    if (tunnels_ != 0) counts_.tunnels.fetch_add(tunnels_, std::memory_order_relaxed);
  }
  ~counted() {
    counts_.running.fetch_sub(1, std::memory_order_relaxed);
    if (tunnels_ != 0) counts_.tunnels.fetch_sub(tunnels_, std::memory_order_relaxed);
  }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;

 private:
  call_counts& counts_;
  const int tunnels_;
};

}  // namespace

/// Reports the attempt's result to the upstream's circuit breaker. If the result opens the breaker, ends the waits of
/// calls whose estimated wait is now longer than their max wait.
void attempt::report(const attempt_result& result) {
  if (held_.report(counts_as_failure(result))) of_.services.end_long_waits(queue(), duration::max());
}

/// Reports that the attempt ended without a response, or with a part of a response. An end is not reported as a failure
/// if the client's own body broke off, or if a websocket ended.
void attempt::report_end(attempt_end end) {
  const exchange& x = exchange_;
  const bool is_half = end == attempt_end::cut && x.status != 101 && (x.body == nullptr || !x.body->has_failed());
  if (const auto kind = meaning_of(end).for_breaker) {
    report({.how = *kind});
    note_failure(true);
  } else if (is_sound_ && is_half) {
    if (held_.report_broken_off()) of_.services.end_long_waits(queue(), duration::max());
    note_failure(true);
  } else if (is_sound_) {
    queue().note_whole_response(target(), since_);
  }
}

/// Updates the state of the upstream from the head of a response: latencies, breaker, learned limits, and pauses.
/// Returns true if the response reports a used-up quota.
bool attempt::see_head(const message_head& h, std::string_view body, std::size_t) {
  constexpr int forbidden = 403;
  const time_point now = clock::now();
  queue().limits().latencies().record(now, now - since_);
  const told_limits told = read_limits(h, body, std::chrono::system_clock::now());
  const attempt_result result = result_of(h, told);
  report(result);
  if (told.size > 0) queue().learn(target(), told);
  const bool is_of_quota = next_.see_head(h, body, target());
  if (asks_for_pause(result)) {
    if (!is_of_quota) obey(told, h.status);
  } else if (!refuse_key(h.status) && !note_failure(h.status == forbidden || counts_as_failure(result))) {
    queue().note_success(target(), of_.route.tenant, since_);
    is_sound_ = true;
  }
  return is_of_quota;
}

/// If the response's status means that the target rejects its key, pauses the target. Returns true if it paused the
/// target.
bool attempt::refuse_key(int status) {
  return refuses_key(status) && of_.services.refuse_key(queue(), target(), since_, of_.record, status);
}

/// If `is_failure`, counts a failure of the target; several failures in a row pause the target. Returns `is_failure`.
bool attempt::note_failure(bool is_failure) {
  if (is_failure && queue().note_failure(target(), since_)) of_.services.end_long_waits(queue(), duration::max());
  return is_failure;
}

/// Pauses the target for the time that the response asks for. If tenants bring their own credentials, pauses the target
/// only for the tenant of the call. If the response forbids a retry and names no time, the target is paused as if it
/// rejected its key: see upstream_queue::refuse_key(). If responses name no wait, or a wait of zero, each further pause
/// is longer than the previous one.
void attempt::obey(const told_limits& told, int status) {
  const auto wait = told.wait_of_refusal();
  if (!wait && told.forbids_retry) {
    of_.services.refuse_key(queue(), target(), since_, of_.record, status);
    return;
  }
  const std::size_t tenant = of_.route.tenant;
  const bool is_named = wait && *wait > duration::zero();
  const duration first = wait ? pause_growth::of_at_once : pause_growth::of_mute;
  const time_point until =
      is_named ? clock::now() + *wait : queue().end_of_growing_pause(target(), tenant, since_, first);
  of_.services.pause(queue(), target(), tenant, until, of_.record, status);
}

/// Waits before another attempt to get a file descriptor. The call polls for a free descriptor, because no event
/// reports one.
net::awaitable<void> attempt::wait_for_descriptor(time_point last_try) {
  constexpr duration between_looks = std::chrono::milliseconds{20};
  of_.services.close_idle_links();
  net::steady_timer bell{of_.loop.io, std::min(last_try, clock::now() + between_looks)};
  error_code ignored;
  co_await bell.async_wait(net::redirect_error(net::use_awaitable, ignored));
}

net::awaitable<attempt_end> attempt::run() {
  since_ = clock::now();
  exchange& x = exchange_;
  const time_point last_try = saturating_add(since_, queue().settings().timeout.connect);
  attempt_end end = attempt_end::unreachable;
  const counted counts{of_.services.counts, x.tunnelled != nullptr};
  try {
    for (;;) {
      x.lacks_descriptor = false;
      {
        link_pool::use connection{*x.pool};
        auto running = run_exchange(x, *connection);
        end = co_await std::move(running);
        connection.end();
      }
      if (!x.lacks_descriptor || x.is_aborted || clock::now() >= last_try) break;
      co_await wait_for_descriptor(last_try);
    }
  } catch (const std::exception&) {  // no memory was left for a coroutine or a buffer
    end = x.has_begun ? attempt_end::cut : attempt_end::lost;
  }
  if (!x.lacks_descriptor) report_end(end);
  co_return end;
}

}  // namespace canigo::gateway
