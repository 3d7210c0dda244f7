#include "gateway/policy/quota_fields.hpp"

#include "gateway/policy/refusal_body.hpp"
#include "gateway/wire/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace canigo::gateway {
namespace {

using canigo::detail::told_quota;

// The names of the units, in the order of the values of told_unit.
constexpr std::array<std::string_view, 4> unit_names{"requests", "tokens", "input_tokens", "output_tokens"};

double per_nanosecond(std::uint64_t count, duration period) noexcept {
  return static_cast<double>(count) / static_cast<double>(std::max(period, duration{1}).count());
}

bool is_for(const told_quota& q, const rate_limit& r) noexcept {
  if (r.unit != unit_names[static_cast<std::size_t>(q.unit)]) return false;
  const bool is_of_part = !q.resource.empty() && !same_text(q.resource, "core");
  if (!q.limit) return !is_of_part;
  constexpr double far = 2;
  const double wanted = per_nanosecond(static_cast<std::uint64_t>(r.rate.tokens()), r.rate.period());
  const double told = per_nanosecond(*q.limit, q.window.value_or(r.rate.period()));
  return told * far >= wanted && !(is_of_part && told > wanted * far);
}

}  // namespace

told_limits read_limits(const message_head& response, std::string_view body, std::chrono::system_clock::time_point now,
                        duration most) {
  canigo::detail::limit_fields fields;
  for (const field& f : response.fields) fields.take(f.name, f.value);
  told_limits told = fields.read(now, most);
  if (body.empty()) return told;
  const told_in_body more = read_refusal_body(body);
  told.forbids_retry = told.forbids_retry || more.lasts;
  if (more.wait && !more.lasts && !told.retry_after) told.retry_after = std::min(*more.wait, most);
  return told;
}

std::optional<std::uint64_t> rest_for(const told_limits& told, const rate_limit& r) noexcept {
  std::optional<std::uint64_t> least;
  for (const told_quota& q : told.quotas()) {
    if (is_for(q, r)) least = std::min(least.value_or(*q.left), *q.left);
  }
  return least;
}

std::uint64_t tokens_to_keep(const rate_limit& r, std::uint64_t left) noexcept {
  constexpr double hour = std::chrono::nanoseconds{std::chrono::hours{1}}.count();
  const double made = static_cast<double>(r.rate.tokens()) * hour / static_cast<double>(r.rate.period().count());
  const auto burst = static_cast<double>(r.burst);
  const double least = made < burst ? std::ceil(burst - made) : 0;
  return std::max(left, static_cast<std::uint64_t>(least));
}

}  // namespace canigo::gateway
