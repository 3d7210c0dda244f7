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

/// A configuration, or all errors in it.
struct read_result {
  std::optional<config> value;
  std::vector<config_error> errors;  ///< empty if there is a value; ordered by their places in the file
  std::shared_ptr<const file_values> values = nullptr;  ///< the values in the file, if it was read without an error
};

/// Reads a configuration in TOML, together with the secrets and files that it names.
///
/// A syntax error of TOML is reported alone, because nothing is read after it. Allocates. Blocks, because it reads
/// files.
read_result parse_config(std::string_view text);

/// Like parse_config(), for a file of up to 4 MiB.
read_result read_config(const std::string& path);

}  // namespace canigo::gateway
