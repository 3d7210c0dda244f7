#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Matches calls by their method and their path.
struct call_pattern {
  std::string method;
  /// The pattern for the path. A '*' at its beginning matches any text. Any other '*' matches a text without '/'.
  std::string path;

  /// Whether a call matches. `called`: its method. `target`: the request target that the upstream gets. The query in
  /// `target` is ignored, and bytes are compared without decoding.
  ///
  /// If may_be_another_path() is true for the path, only the pattern "*" matches. A pattern that ends with '/' also
  /// matches a path whose last part is empty.
  bool matches(std::string_view called, std::string_view target) const noexcept;

  friend bool operator==(const call_pattern&, const call_pattern&) = default;
};

/// Whether a server may read the path as another path: it has an empty part, a part that consists of dots, or a
/// semicolon. Examples: "/files/", "/files/.", "/files/..%2fchat", "/a//files", "/chat;/files". A separator of parts is
/// a slash or a backslash, plain or percent-encoded. If `may_end_with_slash` is true, an empty part at the end does not
/// count: the result for "/files/" is then false.
bool may_be_another_path(std::string_view path, bool may_end_with_slash = false) noexcept;

/// Reads a method and a pattern of paths, such as "POST */files". Returns nothing if the text does not have this form.
std::optional<call_pattern> parse_call_pattern(std::string_view text);
inline constexpr std::string_view call_pattern_syntax =
    "METHOD /PATH such as \"POST */files\", where * stands for any text, of visible ASCII without ? and #";

}  // namespace canigo::gateway
