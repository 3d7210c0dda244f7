#pragma once

#include <string>

namespace canigo::jobs::detail {

class postgres_link;

/// Creates the tables, or migrates them if their version is less than this library's. Several processes may call this
/// function at the same time.
///
/// Throws std::system_error with error::newer_schema if the tables' version is greater than this library's.
void make_tables(postgres_link& link, const std::string& place);

}  // namespace canigo::jobs::detail
