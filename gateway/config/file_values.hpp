#pragma once

#include "gateway/config/report.hpp"

#include <toml++/toml.h>

#include <utility>

namespace canigo::gateway {

/// The values of a configuration file by their names. An error found when a value is used can so name its line.
class file_values {
 public:
  explicit file_values(toml::table root) : root_{std::move(root)} {}

  /// Returns "FIELD is VALUE" followed by the reason. A table, or a list of tables, is named without its value. The
  /// place of a value that the file leaves out is the place of the table in which the value is missing.
  config_error locate(const value_error& e) const;

 private:
  toml::table root_;
};

}  // namespace canigo::gateway
