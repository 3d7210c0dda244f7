#pragma once

#include <compare>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::gateway {

/// Where something stands in a file; both count from 1, and 0 is the file as a whole.
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

/// A mistake that shows once a value is used: the file could be read.
struct value_error {
  std::string field;  ///< its full name: "upstream[0].queue"
  std::string why;    ///< follows "FIELD is VALUE": ": No such file or directory"
};

/// Such an error as an exception.
class config_mistake : public std::runtime_error {
 public:
  config_mistake(std::string field, std::string why)
      : std::runtime_error{field + why}, error{std::move(field), std::move(why)} {}
  const value_error error;
};

/// On one line, of what any terminal shows.
std::string printable(std::string_view text, std::size_t longest = std::string_view::npos);

/// "FILE:LINE:COLUMN: TEXT"
std::string message_of(const config_error& error, std::string_view file);

/// Collects all that is wrong with a file, so that one look at it finds everything.
class report {
 public:
  /// "FIELD is VALUE; allowed: ALLOWED". The value is cut, and what can't be printed is '?'.
  void refuse(place where, std::string_view field, std::string_view value, std::string_view allowed);
  /// The same for a text of the file: it is quoted.
  void refuse_text(place where, std::string_view field, std::string_view value, std::string_view allowed);
  /// "FIELD WHY"
  void complain(place where, std::string_view field, std::string_view why);

  bool is_empty() const noexcept { return errors_.empty(); }
  /// In the order of the file.
  std::vector<config_error> take();

 private:
  std::vector<config_error> errors_;
};

}  // namespace canigo::gateway
