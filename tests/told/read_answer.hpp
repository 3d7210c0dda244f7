#pragma once

#include "canigo/detail/told/told_limits.hpp"

#include <chrono>
#include <cstddef>
#include <string_view>

namespace told_tests {

/// Calls `use` with the name and the value of each line "name: value".
template <class Use>
void for_each_field(std::string_view fields, Use use) {
  while (!fields.empty()) {
    const std::string_view line = fields.substr(0, fields.find('\n'));
    const std::string_view name = line.substr(0, line.find(':'));
    use(name, line.substr(name.size() < line.size() ? name.size() + 1 : name.size()));
    fields.remove_prefix(line.size() < fields.size() ? line.size() + 1 : line.size());
  }
}

inline canigo::detail::told_limits read_fields(std::string_view fields, std::chrono::system_clock::time_point now,
                                               canigo::duration most) {
  canigo::detail::limit_fields all;
  for_each_field(fields, [&](std::string_view name, std::string_view value) { all.take(name, value); });
  return all.read(now, most);
}

}  // namespace told_tests
