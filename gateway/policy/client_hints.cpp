#include "gateway/policy/client_hints.hpp"

#include "canigo/detail/time/decimal_seconds.hpp"

#include "gateway/config/quantities.hpp"
#include "gateway/policy/fields.hpp"
#include "gateway/wire/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>
#include <system_error>

namespace canigo::gateway {
namespace {

constexpr std::uint64_t most_tokens = std::uint64_t{1} << 62;

std::optional<std::uint64_t> parse_count(std::string_view text) noexcept {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count > most_tokens) return std::nullopt;
  return count;
}

/// Returns how long the client waits for an answer: the shortest of the time limits that its SDK reports in the
/// request's fields. Nothing if there is no such field.
std::optional<duration> read_patience(const message_head& head) {
  std::optional<duration> shortest;
  for (const field& f : head.fields) {
    if (!same_text(f.name, "X-Stainless-Read-Timeout") && !same_text(f.name, "X-Stainless-Timeout") &&
        !same_text(f.name, "X-Server-Timeout"))
      continue;
    const auto limit = canigo::detail::parse_decimal_seconds(trim(f.value), std::chrono::hours{24});
    if (limit) shortest = std::min(shortest.value_or(*limit), *limit);
  }
  return shortest;
}

std::optional<interim_wish> parse_interim(std::string_view text) {
  interim_wish wish;
  const auto end_of_status = text.find(';');
  const std::string_view status = trim(text.substr(0, end_of_status));
  if (status != "102" && status != "103") return std::nullopt;
  wish.status = status == "102" ? 102 : 103;
  if (end_of_status == text.npos) return wish;
  constexpr std::string_view name = "every=";
  const std::string_view every = trim(text.substr(end_of_status + 1));
  if (!every.starts_with(name)) return std::nullopt;
  const auto time = parse_duration(every.substr(name.size()));
  if (!time || *time < std::chrono::seconds{1} || *time > std::chrono::hours{1}) return std::nullopt;
  wish.every = *time;
  return wish;
}

}  // namespace

hint_reading read_hints(const message_head& head, const tenant& whose, std::span<const std::string> classes,
                        std::span<const duration> max_wait) {
  hint_reading r;
  r.granted.priority = whose.default_class;
  std::optional<std::string_view> priority, wait, tokens, interim;
  for (const field& f : head.fields) {
    auto* const known = same_text(f.name, "X-Canigo-Priority")   ? &priority
                        : same_text(f.name, "X-Canigo-Max-Wait") ? &wait
                        : same_text(f.name, "X-Canigo-Tokens")   ? &tokens
                        : same_text(f.name, "X-Canigo-Interim")  ? &interim
                                                                 : nullptr;
    if (known == nullptr) continue;
    if (*known) {
      r.refused = refusal{400, "bad_request", fmt::format("there is more than one {}", f.name)};
      return r;
    }
    *known = trim(f.value);
  }
  const auto refuse = [&](std::string_view name, std::string_view allowed) {
    r.refused = refusal{400, "bad_request", fmt::format("{} can't be read; allowed: {}", name, allowed)};
    return r;
  };
  if (priority) {
    const auto found = std::ranges::find(classes, *priority);
    if (found == classes.end()) return refuse("X-Canigo-Priority", fmt::format("{}", fmt::join(classes, ", ")));
    const int asked = static_cast<int>(found - classes.begin());
    r.granted.priority = std::max(asked, whose.best_class);
    r.granted.asked_above_best = asked < whose.best_class;
  }
  r.granted.max_wait = std::min(max_wait[static_cast<std::size_t>(r.granted.priority)], whose.max_wait);
  r.granted.patience = read_patience(head);
  if (wait) {
    const auto asked = parse_duration(*wait);
    if (!asked) return refuse("X-Canigo-Max-Wait", duration_syntax);
    r.granted.max_wait = std::min(r.granted.max_wait, *asked);
  }
  if (tokens) {
    const auto asked = parse_count(*tokens);
    if (!asked) return refuse("X-Canigo-Tokens", "a whole number from 0 to 2^62");
    r.granted.least_tokens = *asked;
  }
  if (interim) {
    r.granted.interim = parse_interim(*interim);
    if (!r.granted.interim) return refuse("X-Canigo-Interim", "102 or 103, and perhaps \"; every=\" and 1s to 1h");
  }
  return r;
}

}  // namespace canigo::gateway
