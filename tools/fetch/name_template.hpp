#pragma once

#include "call.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fetch {

/// The names of files for calls, from a text with {order}, {class}, {id}, {host} and {file} in it.
///
/// What a call puts in can't lead to another folder: all but letters, digits and -_.~@=+, of ASCII is written as %XX,
/// and so is a full stop at its beginning.
class name_template {
 public:
  /// Throws std::system_error, errc::invalid_argument, with the mistake.
  explicit name_template(std::string_view text);

  struct result {
    std::string name;
    std::string problem;  ///< empty: none
  };
  /// The name for the call, with / between its folders.
  result name_of(const call& c) const;

 private:
  enum class place { order, priority, id, host, file };
  static place place_called(std::string_view name);

  std::vector<std::variant<std::string, place>> parts_;
};

}  // namespace fetch
