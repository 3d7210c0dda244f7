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

/// A configuration, or all mistakes in it.
struct read_result {
  std::optional<config> value;
  std::vector<config_error> errors;                     ///< empty if there is a value; in the order of the file
  std::shared_ptr<const file_values> values = nullptr;  ///< the values of the file, if there is a configuration
};

/// Reads a configuration in TOML, and the secrets and files that it names.
///
/// An error in TOML's own syntax is the only one that it reports, as it reads no further.
/// Allocates. Blocks, as it reads files.
read_result parse_config(std::string_view text);

/// Like parse_config(), for the text of a file of up to 4 MiB.
read_result read_config(const std::string& path);

}  // namespace canigo::gateway
