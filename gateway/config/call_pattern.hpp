#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Calls of one method and of paths of one form.
struct call_pattern {
  std::string method;
  /// '*' at its beginning stands for any text, and anywhere else for any text without '/'.
  std::string path;

  /// `target`: as it goes to the upstream. Its query is ignored. Bytes are compared as they are.
  ///
  /// A server may take "/files/", "/files/." or "/a//files" for another path. So only "*" alone matches a path with an
  /// empty part or a part of dots. A pattern that ends with '/' allows an empty part at the end.
  bool matches(std::string_view called, std::string_view target) const noexcept;

  friend bool operator==(const call_pattern&, const call_pattern&) = default;
};

/// Reads a text such as "POST */files". Nothing if the text has another form.
std::optional<call_pattern> parse_call_pattern(std::string_view text);
inline constexpr std::string_view call_pattern_syntax =
    "METHOD /PATH such as \"POST */files\", where * stands for any text, of visible ASCII without ? and #";

}  // namespace canigo::gateway
