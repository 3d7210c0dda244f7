#include "gateway/config/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace canigo::gateway {
namespace {

constexpr std::size_t longest_value = 60;
constexpr std::size_t most_of_field = 120;

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  std::string shown{text.substr(0, longest)};
  std::ranges::replace_if(shown, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (text.size() > longest) shown += "...";
  return shown;
}

std::string message_of(const config_error& error, std::string_view file) {
  return fmt::format("{}:{}:{}: {}", file, error.where.line, error.where.column, error.text);
}

void report::refuse(place where, std::string_view field, std::string_view value, std::string_view allowed) {
  complain(where, field, fmt::format("is {}; allowed: {}", printable(value, longest_value), allowed));
}

void report::refuse_text(place where, std::string_view field, std::string_view value, std::string_view allowed) {
  complain(where, field, fmt::format("is \"{}\"; allowed: {}", printable(value, longest_value), allowed));
}

void report::complain(place where, std::string_view field, std::string_view why) {
  errors_.push_back({where, fmt::format("{} {}", printable(field, most_of_field), printable(why))});
}

std::vector<config_error> report::take() {
  std::ranges::sort(errors_, [](const config_error& a, const config_error& b) {
    return std::tie(a.where, a.text) < std::tie(b.where, b.text);
  });
  return std::exchange(errors_, {});
}

}  // namespace canigo::gateway
