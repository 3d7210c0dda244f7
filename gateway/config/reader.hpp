#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/report.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

class file_values;

/// A configuration, or all errors in its file.
struct read_result {
  std::optional<config> value;
  std::vector<config_error> errors;  ///< empty if there is a value; ordered by the errors' places in the file
  std::shared_ptr<const file_values> values = nullptr;  ///< the values in the file; null if there are errors
};

/// Reads a configuration in TOML, and the secrets and files that it names.
///
/// After a syntax error of TOML nothing more is read, so no other error is reported. Allocates. Blocks, because it
/// reads files.
read_result parse_config(std::string_view text);

/// Like parse_config(), but reads the configuration from a file of up to 4 MiB.
read_result read_config(const std::string& path);

}  // namespace canigo::gateway
