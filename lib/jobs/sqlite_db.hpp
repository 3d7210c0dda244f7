#pragma once

#include "canigo/jobs/error.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <sqlite3.h>
#include <string>
#include <string_view>

namespace canigo::jobs::detail {

/// Marks an argument as a blob; a string_view is passed as text.
struct blob {
  std::string_view bytes;
};

/// A prepared statement. Errors: those of sqlite_db.
class sqlite_statement {
 public:
  sqlite_statement(sqlite3* connection, const std::string& file, const char* sql);

  /// Binds the arguments, and carries out the statement. Returns the number of changed rows.
  template <class... Args>
  std::int64_t run(const Args&... args) {
    start(args...);
    while (next()) {
    }
    return ::sqlite3_changes64(connection_);
  }
  /// Binds the arguments. After that, each next() steps to a row. The statement can't be used for anything else until
  /// next() has returned false.
  template <class... Args>
  sqlite_statement& start(const Args&... args) {
    reset();
    [[maybe_unused]] int i = 0;  // without arguments, g++ 16 reports `i` as unused
    (bind(++i, args), ...);
    return *this;
  }
  /// Steps to the next row. Returns false after the last row, and resets the statement.
  bool next();
  /// Carries out the statement. Returns the first column of the first row; nothing if there is no row, or if that
  /// column is null.
  template <class... Args>
  std::optional<std::int64_t> number(const Args&... args) {
    start(args...);
    std::optional<std::int64_t> found;
    if (next() && !is_null(0)) found = integer(0);
    reset();
    return found;
  }
  void reset() noexcept { ::sqlite3_reset(statement_.get()); }

  bool is_null(int column) const noexcept { return ::sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
  std::int64_t integer(int column) const noexcept { return ::sqlite3_column_int64(statement_.get(), column); }
  /// Returns a counter, limited to its valid range, because another program may have written any number.
  std::uint32_t count(int column) const noexcept {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(integer(column), 0, INT32_MAX));
  }
  const char* name(int column) const noexcept { return ::sqlite3_column_name(statement_.get(), column); }
  /// Returns the text or blob in a column of the row.
  std::string text(int column) const;

 private:
  void bind(int i, std::int64_t n);
  void bind(int i, int n) { bind(i, std::int64_t{n}); }
  void bind(int i, std::uint32_t n) { bind(i, std::int64_t{n}); }
  void bind(int i, std::string_view text);
  void bind(int i, const std::string& text) { bind(i, std::string_view{text}); }
  void bind(int i, blob b);
  void bind(int i, std::nullptr_t);
  template <class T>
  void bind(int i, const std::optional<T>& value) {
    value ? bind(i, *value) : bind(i, nullptr);
  }
  void check(int code) const;

  struct finalize {
    void operator()(sqlite3_stmt* s) const noexcept { ::sqlite3_finalize(s); }
  };
  sqlite3* connection_;
  const std::string* file_;
  std::unique_ptr<sqlite3_stmt, finalize> statement_;
};

/// A connection to an SQLite file, with its prepared statements. Threads: one at a time.
///
/// Errors: std::system_error with a jobs::error. The text names the file, SQLite's code and text, and the remedy.
class sqlite_db {
 public:
  /// `busy_limit`: how long an operation waits for a lock.
  sqlite_db(std::string file, duration busy_limit);
  /// Uses the caller's connection, and does not close it.
  explicit sqlite_db(sqlite3* connection);
  sqlite_db(const sqlite_db&) = delete;
  sqlite_db& operator=(const sqlite_db&) = delete;
  ~sqlite_db();

  /// Returns the statement with this text. It is prepared on first use. `sql`: a string literal.
  sqlite_statement& sql(const char* sql);
  /// Carries out statements that return no rows and are used only once.
  void exec(const char* sql);

  /// Whether another connection has changed the file since the last call. The first call returns true.
  bool was_changed();
  /// Whether the file was renamed or removed.
  bool has_moved() noexcept;

  sqlite3* connection() noexcept { return connection_; }
  const std::string& file() const noexcept { return file_; }

 private:
  static int busy(void* self, int calls) noexcept;

  std::string file_;
  duration busy_limit_{};
  time_point busy_since_{};
  std::uint64_t random_;
  sqlite3* connection_ = nullptr;
  bool is_own_ = true;
  std::optional<std::int64_t> version_;
  std::map<const char*, sqlite_statement> statements_;
};

/// Throws the error for an SQLite code. `connection` may be null.
[[noreturn]] void throw_sqlite(sqlite3* connection, const std::string& file, int code);

}  // namespace canigo::jobs::detail
