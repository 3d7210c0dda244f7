#pragma once

#include <string>

namespace tools {

/// What `--version` prints: "NAME VERSION", then the libraries with the versions that run. `own` are those that only
/// this program has, as "libcurl/8.5.0 OpenSSL/3.0.2".
std::string versions(const std::string& name, const std::string& own);

/// "8.5.0" of a number such as 80500, whose parts have two digits each.
std::string in_pairs_of_digits(int number);

}  // namespace tools
