#pragma once

#include "gateway/config/report.hpp"

#include <toml++/toml.h>

#include <utility>

namespace canigo::gateway {

/// The values of a file by their names. So a mistake that shows when a value is used can name its place, too.
class file_values {
 public:
  explicit file_values(toml::table root) : root_{std::move(root)} {}

  /// "FIELD is VALUE" and why; a table or a list of tables is named without its value. A value that the file leaves out
  /// is at the place of the table that would have it.
  config_error locate(const value_error& e) const;

 private:
  toml::table root_;
};

}  // namespace canigo::gateway
