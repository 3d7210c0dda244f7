#include "gateway/policy/client_hints.hpp"

#include "gateway/config/quantities.hpp"
#include "gateway/policy/fields.hpp"
#include "gateway/wire/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
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

}  // namespace

hint_reading read_hints(const message_head& head, const tenant& whose, std::span<const std::string> classes,
                        std::span<const duration> max_wait) {
  hint_reading r;
  r.granted.priority = whose.default_class;
  std::optional<std::string_view> priority, wait, tokens;
  for (const field& f : head.fields) {
    auto* const known = same_text(f.name, "X-Canigo-Priority")   ? &priority
                        : same_text(f.name, "X-Canigo-Max-Wait") ? &wait
                        : same_text(f.name, "X-Canigo-Tokens")   ? &tokens
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
  r.granted.max_wait = max_wait[static_cast<std::size_t>(r.granted.priority)];
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
  return r;
}

}  // namespace canigo::gateway
