#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/report.hpp"
#include "gateway/config/table_view.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Reads the secret that "env:NAME" or "file:/path" names. A text without one of these prefixes may be the secret
/// itself, so no message shows it.
std::optional<secret> read_secret(const text_at& source, report& problems);

/// Whether `path` is the absolute path of a file that can be read.
bool is_readable_file(const std::string& path);

}  // namespace canigo::gateway
