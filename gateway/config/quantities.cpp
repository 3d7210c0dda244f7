#include "gateway/config/quantities.hpp"

#include <charconv>
#include <chrono>
#include <limits>
#include <span>
#include <system_error>

namespace canigo::gateway {
namespace {

struct unit {
  std::string_view name;
  std::uint64_t of_one;
};

std::optional<std::uint64_t> in_units(std::string_view text, std::span<const unit> units, std::uint64_t most) noexcept {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view name{end, text.data() + text.size()};
  for (const unit& u : units)
    if (u.name == name) return count > most / u.of_one ? std::nullopt : std::optional{count * u.of_one};
  return std::nullopt;
}

constexpr unit times[] = {{"ms", 1'000'000},
                          {"s", 1'000'000'000},
                          {"m", 60'000'000'000},
                          {"h", 3'600'000'000'000},
                          {"d", 86'400'000'000'000}};
constexpr unit sizes[] = {{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
constexpr unit percents[] = {{"%", 1}};

}  // namespace

std::optional<duration> parse_duration(std::string_view text) noexcept {
  const auto count = in_units(text, times, static_cast<std::uint64_t>(duration::max().count()));
  if (!count) return std::nullopt;
  return duration{static_cast<duration::rep>(*count)};
}

std::optional<std::uint64_t> parse_size(std::string_view text) noexcept {
  return in_units(text, sizes, std::numeric_limits<std::int64_t>::max());
}

std::optional<int> parse_percent(std::string_view text) noexcept {
  const auto count = in_units(text, percents, 1'000'000);
  if (!count) return std::nullopt;
  return static_cast<int>(*count);
}

std::optional<double> parse_share(std::string_view text) noexcept {
  if (text.empty() || text.find_first_not_of("0123456789.") != text.npos) return std::nullopt;
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size() || !(share > 0 && share <= 1)) return std::nullopt;
  return share;
}

}  // namespace canigo::gateway
