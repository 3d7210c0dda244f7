#pragma once

#include "sqlite_db.hpp"

namespace canigo::jobs::detail {

/// The version of the tables. A library refuses a greater one, and brings a lesser one up to this.
inline constexpr int schema_version = 2;

/// Makes or migrates the tables, in the transaction that is open, if there is one. Several processes may do so at once.
///
/// The tables have names of their own, and the version has a table: the file may be one that the user has, with an
/// application_id and a user_version.
void make_tables(sqlite_db& db);

/// Makes the tables, for a connection of the store's own, which it sets up first.
void set_up(sqlite_db& db);

/// How a commit is written: FULL waits for the disk.
void set_synchronous(sqlite_db& db, bool is_full);

}  // namespace canigo::jobs::detail
