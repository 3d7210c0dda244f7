#include "gateway/policy/repeat_rules.hpp"

#include "canigo/detail/told/told_limits.hpp"

#include "gateway/policy/fields.hpp"

#include <algorithm>
#include <string_view>

namespace canigo::gateway {
namespace {

constexpr int too_many_requests = 429, overloaded = 529;  // 529 is Anthropic's status for an overload

}  // namespace

bool may_be_sent_twice(const message_head& request) noexcept {
  constexpr std::string_view methods[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"};
  if (std::ranges::find(methods, request.method) != std::end(methods)) return true;
  const auto key = value_of(request, "Idempotency-Key");
  return key && !trim(*key).empty();
}

bool asks_for_pause(const attempt_result& result) noexcept {
  if (result.how != attempt_end_kind::answered && result.how != attempt_end_kind::begun) return false;
  if (result.status == too_many_requests || result.status == overloaded) return true;
  return canigo::detail::is_refusal_by_limit(result.status) && result.tells_limit;
}

repeat judge_repeat(const message_head& request, const attempt_result& result, bool has_whole_body) noexcept {
  if (!has_whole_body) return repeat::no;
  switch (result.how) {
    case attempt_end_kind::unreachable:
      return repeat::yes;
    case attempt_end_kind::lost:
      return may_be_sent_twice(request) ? repeat::yes : repeat::no;
    case attempt_end_kind::answered:
      if (result.forbids_retry) return repeat::no;
      if (asks_for_pause(result)) return repeat::yes_after_pause;
      if (result.status != 502 && result.status != 504) return repeat::no;
      return may_be_sent_twice(request) ? repeat::yes : repeat::no;
    case attempt_end_kind::begun:
      break;
  }
  return repeat::no;
}

bool counts_as_failure(const attempt_result& result) noexcept {
  switch (result.how) {
    case attempt_end_kind::unreachable:
    case attempt_end_kind::lost:
      return true;
    case attempt_end_kind::answered:
    case attempt_end_kind::begun:
      break;
  }
  return result.status == 500 || (result.status >= 502 && result.status <= 504) || result.status == overloaded;
}

}  // namespace canigo::gateway
