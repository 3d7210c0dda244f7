#pragma once

#include "gateway/config/report.hpp"

#include <toml++/toml.h>

#include <utility>

namespace canigo::gateway {

/// The values of a file by their names. So what is found wrong with one later names its place, too.
class file_values {
 public:
  explicit file_values(toml::table root) : root_{std::move(root)} {}

  /// "FIELD is VALUE" and why; of a table, and of a list of tables, there is no value. A value that the file leaves
  /// out is at the place of the table that would have it.
  config_error locate(const value_error& e) const;

 private:
  toml::table root_;
};

}  // namespace canigo::gateway
