#include "cron_field.hpp"

#include "canigo/error.hpp"

#include "number_text.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <system_error>

namespace canigo::jobs::detail {
namespace {

std::optional<unsigned> number_of(std::string_view text) {
  unsigned n = 0;
  return is_number(text, n) ? std::optional{n} : std::nullopt;
}

constexpr char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::optional<unsigned> value_of(const cron_field& f, std::string_view text) {
  for (std::size_t i = 0; i < f.names.size(); ++i) {
    if (std::ranges::equal(text, f.names[i], {}, lower)) return f.least + static_cast<unsigned>(i);
  }
  const auto n = number_of(text);
  return n && *n >= f.least && *n <= f.most ? n : std::nullopt;
}

/// Returns the values of one element of a cron field, such as "1-5", with one bit for each value. Returns nothing if
/// the element is invalid.
std::optional<std::uint64_t> bits_of(const cron_field& f, std::string_view part) {
  const std::size_t slash = part.find('/');
  const std::string_view values = part.substr(0, slash);
  const std::size_t dash = values.find('-');
  const bool is_all = values == "*";
  const auto first = is_all ? f.least : value_of(f, values.substr(0, dash));
  const auto last = is_all ? f.most : dash == values.npos ? first : value_of(f, values.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  unsigned step = 1;
  if (slash != part.npos) {
    const auto n = number_of(part.substr(slash + 1));
    // Refuses a step beyond the range, because it is probably a mistake: for example, cron can't express "every 90
    // minutes".
    if (!n || *n < 1 || *n > *last - *first) return std::nullopt;
    step = *n;
  }
  std::uint64_t bits = 0;
  for (unsigned v = *first; v <= *last; v += step) bits |= std::uint64_t{1} << v;
  return bits;
}

}  // namespace

std::uint64_t read(const cron_field& f, std::string_view text) {
  std::uint64_t bits = 0;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const auto part = bits_of(f, rest.substr(0, comma));
    if (!part) {
      canigo::detail::throw_invalid(
          "schedule.cron: " + std::string{f.name}, text,
          std::string{f.range} + "; *, lists, ranges, and steps of ranges, shorter than these");
    }
    bits |= *part;
    if (comma == rest.npos) return bits;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace canigo::jobs::detail
