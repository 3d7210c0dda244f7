#pragma once

#include "sqlite_db.hpp"

namespace canigo::jobs::detail {

/// The version of the tables. The library refuses tables with a greater version, and migrates those with a smaller one.
inline constexpr int schema_version = 2;

/// Creates or migrates the tables. If a transaction is open, the changes are a part of it. Several processes may call
/// this function at the same time.
///
/// The tables have their own names, and the version is in a table. So the file may be one of the user's, with its own
/// application_id and user_version.
void make_tables(sqlite_db& db);

/// Sets up a connection of the store, and then creates or migrates the tables.
void set_up(sqlite_db& db);

/// Sets whether a commit waits for the disk (FULL) or not (NORMAL).
void set_synchronous(sqlite_db& db, bool is_full);

}  // namespace canigo::jobs::detail
