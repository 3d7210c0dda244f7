#include "gateway/policy/refusal_body.hpp"

#include "canigo/detail/time/date_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

namespace canigo::gateway {
namespace {

using nlohmann::json;

/// Returns the member `name` of an object; a JSON null if there is no such member.
const json& member(const json& of, const char* name) {
  static const json none;
  if (!of.is_object()) return none;
  const auto found = of.find(name);
  return found == of.end() ? none : *found;
}

std::string_view text_of(const json& value) {
  const auto* const text = value.get_ptr<const json::string_t*>();
  return text == nullptr ? std::string_view{} : std::string_view{*text};
}

/// Whether an OpenAI error code means that money or a quota is used up. All these errors may have the `type`
/// insufficient_quota, so only the code distinguishes them.
bool is_of_money(std::string_view code) noexcept {
  constexpr std::string_view codes[] = {"insufficient_quota", "credit_balance_exhausted",
                                        "organization_spend_limit_exceeded", "project_spend_limit_exceeded",
                                        "organization_usage_limit_exceeded"};
  return std::ranges::find(codes, code) != std::end(codes);
}

/// Converts seconds to a duration in whole milliseconds, rounded up, so that no call comes too early. Returns nothing
/// for a number that is no valid time.
std::optional<duration> whole_milliseconds(double seconds) {
  constexpr double most = 1e9;
  if (!(seconds >= 0 && seconds <= most)) return std::nullopt;
  return std::chrono::milliseconds{static_cast<std::int64_t>(std::ceil(seconds * 1000))};
}

/// Whether the message is about GitHub's secondary rate limit. GitHub's documents ask for a wait of at least one minute
/// if the response names no time.
bool is_of_second_limit(std::string_view message) noexcept {
  return message.find("secondary rate limit") != std::string_view::npos;
}

void read_violation(const json& violation, told_in_body& told) {
  const std::string_view name = text_of(member(violation, "quotaId"));
  if (name.find("PerDay") == std::string_view::npos) return;
  told.lasts = true;
  const bool is_of_model = name.find("PerModel") != std::string_view::npos ||
                           !text_of(member(member(violation, "quotaDimensions"), "model")).empty();
  // If several daily quotas are used up, a quota for all models takes precedence over a quota for one model.
  if (!told.day || (told.day->is_of_model && !is_of_model)) told.day = told_day_quota{std::string{name}, is_of_model};
}

void read_detail(const json& detail, told_in_body& told) {
  const std::string_view type = text_of(member(detail, "@type"));
  if (type.ends_with("google.rpc.RetryInfo")) {
    told.wait = std::max(told.wait, canigo::detail::parse_go_duration(text_of(member(detail, "retryDelay"))));
  } else if (type.ends_with("google.rpc.QuotaFailure")) {
    for (const json& violation : member(detail, "violations")) read_violation(violation, told);
  }
}

}  // namespace

told_in_body read_refusal_body(std::string_view body) {
  told_in_body told;
  const json document = json::parse(body, nullptr, false);
  // If a streaming call does not use server-sent events, Gemini answers with a JSON list. If the answer is an error,
  // the error is the first element of the list.
  const json& first = document.is_array() && !document.empty() ? document.front() : document;
  const json& error = member(first, "error");
  const json& details = member(error, "details");
  for (const char* name : {"type", "code"}) told.lasts |= is_of_money(text_of(member(error, name)));
  if (const json& seconds = member(document, "retry_after"); seconds.is_number())
    told.wait = whole_milliseconds(seconds.get<double>());
  if (is_of_second_limit(text_of(member(document, "message")))) told.wait = std::chrono::minutes{1};
  told.lasts |= text_of(member(details, "error_code")) == "enforced_spend_limit_reached";
  if (!details.is_array()) return told;
  for (const json& detail : details) read_detail(detail, told);
  return told;
}

}  // namespace canigo::gateway
