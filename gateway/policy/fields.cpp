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
