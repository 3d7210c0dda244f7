#pragma once

#include "gateway/config/report.hpp"

#include <toml++/toml.h>

#include <utility>

namespace canigo::gateway {

/// The values of a configuration file by their names. They are kept because some errors are found only when a value is
/// used. The message of such an error can then name the value's line in the file.
class file_values {
 public:
  explicit file_values(toml::table root) : root_{std::move(root)} {}

  /// Returns the error "FIELD is VALUE" followed by the reason, with the line and column of the value in the file. For
  /// a table, or a list of tables, the text has no VALUE. If the file leaves the value out, the line and column are
  /// those of the table in which the value is missing.
  config_error locate(const value_error& e) const;

 private:
  toml::table root_;
};

}  // namespace canigo::gateway
