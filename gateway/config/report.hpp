#pragma once

#include <compare>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::gateway {

/// A place in a file. Line and column count from 1. Line 0 stands for the whole file.
struct place {
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  friend auto operator<=>(const place&, const place&) = default;
};

/// An error in a file, with its line and column.
struct config_error {
  place where;
  std::string text;  ///< the message, on a single line
};

/// A wrong value in a file. The error is found only when the value is used, after the file was read without an error.
struct value_error {
  std::string field;  ///< the full name of the key, such as "upstream[0].queue"
  std::string why;    ///< the text that follows "FIELD is VALUE", such as ": No such file or directory"
};

/// A value_error that is thrown as an exception.
class config_mistake : public std::runtime_error {
 public:
  config_mistake(std::string field, std::string why)
      : std::runtime_error{field + why}, error{std::move(field), std::move(why)} {}
  const value_error error;
};

/// An error that ends the program at its start, although no value in the file is wrong. A later start may succeed, so
/// the program exits with 1 instead of 2.
class start_failure : public config_mistake {
 public:
  using config_mistake::config_mistake;
};

/// Returns the text on one line, with control characters replaced, so that any terminal can show it. A text that is
/// longer than `longest` is cut.
std::string printable(std::string_view text, std::size_t longest = std::string_view::npos);

/// Returns the text of an error as "FILE:LINE:COLUMN: TEXT".
std::string message_of(const config_error& error, std::string_view file);

/// Collects all errors in a file, so that one run of the program reports all of them.
class report {
 public:
  /// Adds the error "FIELD is VALUE; allowed: ALLOWED". A long value is cut, and control characters are replaced by
  /// '?'.
  void refuse(place where, std::string_view field, std::string_view value, std::string_view allowed);
  /// Like refuse(), for a value that is a string in the file: the message quotes the value.
  void refuse_text(place where, std::string_view field, std::string_view value, std::string_view allowed);
  /// Adds an error whose text is `field`, a space, and `why`.
  void complain(place where, std::string_view field, std::string_view why);

  bool is_empty() const noexcept { return errors_.empty(); }
  /// Returns the errors, sorted by line and column, and removes them from the report.
  std::vector<config_error> take();

 private:
  std::vector<config_error> errors_;
};

}  // namespace canigo::gateway
