#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/report.hpp"
#include "gateway/config/table_view.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Reads the secret that `source` names as "env:NAME" or "file:/path". An error message shows `source` only if it has
/// one of these prefixes, because any other text may be the secret itself.
std::optional<secret> read_secret(const text_at& source, report& problems);

/// Whether `path` is an absolute path, and a file that can be read.
bool is_readable_file(const std::string& path);

}  // namespace canigo::gateway
