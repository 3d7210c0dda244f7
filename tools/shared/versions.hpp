#pragma once

#include <string>

namespace tools {

/// Returns the text for `--version`: "NAME VERSION", and then the versions of the libraries in use. `own`: the
/// libraries that only this program uses, such as "libcurl/8.5.0 OpenSSL/3.0.2".
std::string versions(const std::string& name, const std::string& own);

/// Formats a version number whose parts have two digits each: 80500 becomes "8.5.0".
std::string in_pairs_of_digits(int number);

}  // namespace tools
