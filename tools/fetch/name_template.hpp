#pragma once

#include "call.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fetch {

/// Makes the names of calls' files from a text that may contain {order}, {class}, {id}, {host} and {file}.
///
/// The values of a call can't lead to another folder: every character except ASCII letters, digits and -_.~@=+, is
/// written as %XX, and so is a full stop at the beginning of a value.
class name_template {
 public:
  /// Throws std::system_error with errc::invalid_argument, whose text describes the mistake.
  explicit name_template(std::string_view text);

  struct result {
    std::string name;
    std::string problem;  ///< the problem with the name; empty: there is none
  };
  /// Returns the file name of the call, with / between its folders.
  result name_of(const call& c) const;

 private:
  enum class place { order, priority, id, host, file };
  static place place_called(std::string_view name);

  std::vector<std::variant<std::string, place>> parts_;
};

}  // namespace fetch
