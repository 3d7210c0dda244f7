#pragma once

#include <compare>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::gateway {

/// A place in a file. Line and column count from 1; 0 is the file as a whole.
struct place {
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  friend auto operator<=>(const place&, const place&) = default;
};

/// A mistake in a file, and its place.
struct config_error {
  place where;
  std::string text;  ///< on one line
};

/// A mistake that shows when a value is used, after the file was read.
struct value_error {
  std::string field;  ///< its full name: "upstream[0].queue"
  std::string why;    ///< follows "FIELD is VALUE": ": No such file or directory"
};

/// A value_error as an exception.
class config_mistake : public std::runtime_error {
 public:
  config_mistake(std::string field, std::string why)
      : std::runtime_error{field + why}, error{std::move(field), std::move(why)} {}
  const value_error error;
};

/// The text on one line, with characters that any terminal shows.
std::string printable(std::string_view text, std::size_t longest = std::string_view::npos);

/// Returns "FILE:LINE:COLUMN: TEXT".
std::string message_of(const config_error& error, std::string_view file);

/// Collects all mistakes in a file, so that one run reports all of them.
class report {
 public:
  /// Notes "FIELD is VALUE; allowed: ALLOWED". A long value is cut, and a character that can't be printed becomes '?'.
  void refuse(place where, std::string_view field, std::string_view value, std::string_view allowed);
  /// Like refuse(), for a text of the file, which is quoted.
  void refuse_text(place where, std::string_view field, std::string_view value, std::string_view allowed);
  /// Notes "FIELD WHY".
  void complain(place where, std::string_view field, std::string_view why);

  bool is_empty() const noexcept { return errors_.empty(); }
  /// Returns the mistakes in the order of the file, and forgets them.
  std::vector<config_error> take();

 private:
  std::vector<config_error> errors_;
};

}  // namespace canigo::gateway
