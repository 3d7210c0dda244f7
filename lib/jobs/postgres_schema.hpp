#pragma once

#include <string>

namespace canigo::jobs::detail {

class postgres_link;

/// Makes or migrates the tables, if their version is less than this library's. Several processes may do so at once.
///
/// Throws std::system_error with error::newer_schema if it is greater.
void make_tables(postgres_link& link, const std::string& place);

}  // namespace canigo::jobs::detail
