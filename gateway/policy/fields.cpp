#include "gateway/policy/fields.hpp"

#include <algorithm>

namespace canigo::gateway {

std::optional<std::string_view> value_of(const message_head& head, std::string_view name) noexcept {
  for (const field& f : head.fields)
    if (same_text(f.name, name)) return f.value;
  return std::nullopt;
}

std::size_t count_of(const message_head& head, std::string_view name) noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(head.fields, [&](const field& f) { return same_text(f.name, name); }));
}

bool signs_in_connection(const message_head& head) noexcept {
  constexpr std::string_view names[] = {"Authorization", "Proxy-Authorization", "WWW-Authenticate",
                                        "Proxy-Authenticate"};
  constexpr std::string_view schemes[] = {"NTLM", "Negotiate"};
  for (const field& f : head.fields) {
    if (std::ranges::none_of(names, [&](std::string_view n) { return same_text(n, f.name); })) continue;
    bool is_one = false;
    for_each_element(f.value, [&](std::string_view element) {
      const std::string_view scheme = element.substr(0, element.find(' '));
      is_one = is_one || std::ranges::any_of(schemes, [&](std::string_view s) { return same_text(s, scheme); });
    });
    if (is_one) return true;
  }
  return false;
}

std::vector<std::string_view> named_by_connection(const message_head& head) {
  std::vector<std::string_view> names;
  for (const field& f : head.fields)
    if (same_text(f.name, "Connection"))
      for_each_element(f.value, [&](std::string_view element) { names.push_back(element); });
  return names;
}

bool is_of_connection(std::string_view name) noexcept {
  constexpr std::string_view names[] = {"Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade"};
  return std::ranges::any_of(names, [&](std::string_view n) { return same_text(n, name); }) ||
         starts_with_text(name, "Proxy-");
}

bool is_one_of(std::string_view name, const std::vector<std::string_view>& names) noexcept {
  return std::ranges::any_of(names, [&](std::string_view n) { return same_text(n, name); });
}

}  // namespace canigo::gateway
