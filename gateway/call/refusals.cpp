#include "gateway/call/refusals.hpp"

#include "gateway/call/attempt_meaning.hpp"
#include "gateway/policy/limit_names.hpp"
#include "gateway/policy/quota_resets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace canigo::gateway {
namespace {

/// Returns how long a request like `ask` would wait if it came now and were served after all waiters. Returns
/// nothing if the limit can never grant such a request.
std::optional<duration> estimate(const limiter& l, request ask) {
  ask.since = time_point::max();
  try {
    return l.estimate(ask);
  } catch (const system_error&) {  // the request can never be granted
    return std::nullopt;
  }
}

}  // namespace

refusal ended_by_operator() {
  return {503, "cancelled", "an operator has ended this request", std::chrono::seconds{1}, true};
}

refusal ended_by_drain() { return {503, "draining", "this instance ends", std::chrono::seconds{1}}; }

refusal refusal_of(const error_code& error, upstream_queue& q, std::size_t tenant, const request& ask) {
  refusal why{429, "wait_timed_out", "no place was free before the longest wait was over"};
  if (error == errc::queue_full)
    why = {429, "queue_full", fmt::format("all {} places of this upstream's queue are taken", q.settings().queue)};
  if (error == errc::evicted) why = {429, "evicted", "a more important request took its place in the queue"};
  if (error == errc::deadline_unreachable) {
    why = {429, "wait_too_long", "even the shortest wait would be longer than the longest allowed"};
  }
  if (error == errc::stopped || error == net::error::operation_aborted) {
    why = {503, "draining", "this instance ends"};
  }
  if (error == errc::too_large) why = {429, "wait_too_long", "it asks for more than the limit ever has"};
  if (error == errc::not_enough_memory) why = {503, "queue_full", "there is no memory to wait with"};
  if (is_store_failure(error)) {
    why = {503, "store_unavailable", "Redis, which keeps this limit, does not serve it: " + error.message()};
  }
  why.is_final = error == errc::too_large;
  // The estimate ignores that running calls take time. If running calls delay the request, the answer asks for a wait
  // of at least a second. If it asked for a few milliseconds, clients would use up all their retries immediately.
  constexpr duration unknown = std::chrono::seconds{1};
  why.retry_after = estimate(q.limit(), ask).value_or(unknown);
  const bool is_known = error == errc::deadline_unreachable || q.limit().why_waiting().until != time_point::max();
  if (!is_known) why.retry_after = std::max(*why.retry_after, unknown);
  if (why.status == 429) {
    why.retry_after = q.return_after(ask, tenant, *why.retry_after);
    why.rate_fields = rate_fields(q.settings().rates, q.limit().why_waiting(), *why.retry_after);
  }
  if (q.limits().shared() != nullptr) why.retry_after = std::max(*why.retry_after, q.limits().shared()->least_wait());
  const bool is_too_late = error == errc::deadline_unreachable || error == errc::timed_out;
  if (is_too_late && q.limits().now().breaker != circuit_state::closed)
    why = {503, "circuit_open", "the upstream fails, and is tried again only later", why.retry_after};
  return why;
}

std::optional<refusal> refusal_by_quota(const upstream_queue& q, std::size_t tenant, const token_estimate& needs,
                                        target_set among) {
  if (needs.is_free) return std::nullopt;
  const auto spent = q.find_spent(tenant, needs.model, among);
  if (!spent) return std::nullopt;
  std::string detail = "paused until " + text_of_reset(spent->resets, spent->reset) +
                       (spent->resets == quota_reset::unknown ? ": the quota" : ": the day's quota");
  if (!spent->model.empty()) detail += " for " + spent->model;
  detail += " is used up, as the upstream has told request " + spent->request + " (" + spent->name + ")";
  return refusal{429, "quota_used_up", std::move(detail), spent->until - std::chrono::steady_clock::now(), true};
}

refusal refusal_of_model(std::string_view model) {
  if (model.empty())
    return {404,
            "no_target",
            "the gateway has read no model from the call, and each target needs one in its path",
            {},
            true};
  return {404, "no_target", fmt::format("no target of the upstream serves the model \"{}\"", model), {}, true};
}

std::optional<refusal> refusal_of(attempt_end end, request_body::status body, const std::string& failure) {
  const attempt_meaning& means = meaning_of(end);
  if (means.status != 0) {
    std::string detail{means.detail};
    if ((end == attempt_end::unreachable || end == attempt_end::no_events) && !failure.empty())
      detail.append(": ").append(failure);
    return refusal{means.status, means.error, std::move(detail)};
  }
  if (end != attempt_end::body_failed) return std::nullopt;
  switch (body) {
    case request_body::status::timed_out:
      return refusal{408, "bad_request", "the body came too slowly"};
    case request_body::status::malformed:
      return refusal{400, "bad_request", "the body is no HTTP/1.1"};
    case request_body::status::too_large:
      return refusal{413, "bad_request", "the body is too large"};
    default:
      return std::nullopt;
  }
}

}  // namespace canigo::gateway
