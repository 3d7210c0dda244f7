#pragma once

#include "sqlite_db.hpp"

namespace canigo::jobs::detail {

/// The version of the tables that this library uses. The library refuses tables with a greater version, and migrates
/// tables with a smaller version.
inline constexpr int schema_version = 2;

/// Creates or migrates the tables. If a transaction is open, the changes are a part of it. Several processes may call
/// this function at the same time.
///
/// The names of all tables begin with "canigo_", and the version is stored in a table. So the user may keep the jobs in
/// a database file of their own, and may set its application_id and user_version.
void make_tables(sqlite_db& db);

/// Sets up a connection of the store, and then creates or migrates the tables.
void set_up(sqlite_db& db);

/// Sets whether a commit waits for the disk (FULL) or not (NORMAL).
void set_synchronous(sqlite_db& db, bool is_full);

}  // namespace canigo::jobs::detail
