#pragma once

#include "call.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fetch {

/// Makes the names of the files for responses from a template, which may contain {order}, {class}, {id}, {host} and
/// {file}.
///
/// A value that comes from a call can't lead to another folder. ASCII letters, digits and the characters `-_.~@=+,%`
/// are kept. Each other character, and a full stop at the beginning of the value, is written as %XX.
class name_template {
 public:
  /// `text`: the template. If it is invalid, throws std::system_error with errc::invalid_argument, whose text describes
  /// the mistake.
  explicit name_template(std::string_view text);

  struct result {
    std::string name;
    std::string problem;  ///< the problem with the name; empty: there is none
  };
  /// Returns the name of the file for the call's response. A name in a subfolder contains "/".
  result name_of(const call& c) const;

 private:
  enum class place { order, priority, id, host, file };
  static place place_called(std::string_view name);

  std::vector<std::variant<std::string, place>> parts_;
};

}  // namespace fetch
