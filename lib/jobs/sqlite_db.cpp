#include "sqlite_db.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

namespace canigo::jobs::detail {
namespace {

struct code_meaning {
  int code;
  jobs::error error;
  const char* advice;
};

constexpr code_meaning code_meanings[] = {
    {SQLITE_FULL, error::full, "free space on its disk"},
    {SQLITE_READONLY, error::read_only, "make the file and its folder writable for this process"},
    {SQLITE_PERM, error::cannot_open, "let this process read and write the file and its folder"},
    {SQLITE_AUTH, error::cannot_open, "let this process read and write the file and its folder"},
    {SQLITE_CANTOPEN, error::cannot_open, "make its folder, and let this process write there"},
    {SQLITE_BUSY, error::locked, "end long transactions of other processes on it, or raise busy_limit"},
    {SQLITE_LOCKED, error::locked, "end long transactions of other processes on it, or raise busy_limit"},
    {SQLITE_CORRUPT, error::corrupt, "restore the file, or move it and its -wal away"},
    {SQLITE_NOTADB, error::corrupt, "name another file: this one is no database of SQLite"},
    {SQLITE_IOERR, error::io, "look at its disk and the system's log"},
    {SQLITE_TOOBIG, error::failed, "make the payload smaller"},
};

}  // namespace

void throw_sqlite(sqlite3* connection, const std::string& file, int code) {
  if ((code & 0xff) == SQLITE_NOMEM) throw std::bad_alloc{};
  const auto* row = std::ranges::find(code_meanings, code & 0xff, &code_meaning::code);
  const bool is_known = row != std::end(code_meanings);
  std::string text = file + ": SQLite's error " + std::to_string(code) + ", ";
  text += connection != nullptr ? ::sqlite3_errmsg(connection) : ::sqlite3_errstr(code);
  if (is_known) text.append("; ").append(row->advice);
  throw std::system_error{make_error_code(is_known ? row->error : error::failed), text};
}

sqlite_statement::sqlite_statement(sqlite3* connection, const std::string& file, const char* sql)
    : connection_{connection}, file_{&file} {
  sqlite3_stmt* made = nullptr;
  check(::sqlite3_prepare_v3(connection, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr));
  statement_.reset(made);
}

bool sqlite_statement::next() {
  const int code = ::sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  // The statement is reset after its last row, because otherwise it would keep its snapshot open.
  const int end = ::sqlite3_reset(statement_.get());
  if (code != SQLITE_DONE) check(end != SQLITE_OK ? end : code);
  return false;
}

std::string sqlite_statement::text(int column) const {
  const void* bytes = ::sqlite3_column_blob(statement_.get(), column);
  const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(statement_.get(), column));
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), size};
}

void sqlite_statement::bind(int i, std::int64_t n) { check(::sqlite3_bind_int64(statement_.get(), i, n)); }

void sqlite_statement::bind(int i, std::string_view text) {
  const char* data = text.data() != nullptr ? text.data() : "";
  check(::sqlite3_bind_text64(statement_.get(), i, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void sqlite_statement::bind(int i, blob b) {
  // SQLite would store NULL instead of an empty text if the text's pointer were null.
  const char* data = b.bytes.data() != nullptr ? b.bytes.data() : "";
  check(::sqlite3_bind_blob64(statement_.get(), i, data, b.bytes.size(), SQLITE_STATIC));
}

void sqlite_statement::bind(int i, std::nullptr_t) { check(::sqlite3_bind_null(statement_.get(), i)); }

void sqlite_statement::check(int code) const {
  if (code != SQLITE_OK) throw_sqlite(connection_, *file_, code);
}

sqlite_db::sqlite_db(std::string file, duration busy_limit)
    : file_{std::move(file)}, busy_limit_{busy_limit}, random_{std::random_device{}() | 1U} {
  const int code = ::sqlite3_open_v2(file_.c_str(), &connection_,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  try {
    if (connection_ != nullptr) ::sqlite3_extended_result_codes(connection_, 1);
    if (code != SQLITE_OK) throw_sqlite(connection_, file_, code);
    ::sqlite3_busy_handler(connection_, &sqlite_db::busy, this);
  } catch (...) {
    ::sqlite3_close(connection_);
    throw;
  }
}

sqlite_db::sqlite_db(sqlite3* connection) : random_{0}, connection_{connection}, is_own_{false} {
  const char* name = ::sqlite3_db_filename(connection, "main");
  file_ = name != nullptr ? name : "";
}

bool sqlite_db::has_moved() noexcept {
  int has_moved = 0;
  ::sqlite3_file_control(connection_, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
  return has_moved != 0;
}

sqlite_db::~sqlite_db() {
  statements_.clear();
  if (is_own_) ::sqlite3_close(connection_);
}

sqlite_statement& sqlite_db::sql(const char* sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return found->second;
  return statements_.try_emplace(sql, connection_, file_, sql).first->second;
}

void sqlite_db::exec(const char* sql) {
  const int code = ::sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw_sqlite(connection_, file_, code);
}

bool sqlite_db::was_changed() {
  const auto version = sql("PRAGMA data_version").number();
  return std::exchange(version_, version) != version;
}

/// Called by SQLite while the file is locked. Waits for 0.1 to 0.5 ms, at random, so that waiting processes do not
/// collide again. SQLite's own handler is not used: it waits longer with each call, so newer waiters overtake a process
/// that has waited long. After busy_limit_, returns 0; then the operation ends with an error.
int sqlite_db::busy(void* self, int calls) noexcept {
  auto& db = *static_cast<sqlite_db*>(self);
  const auto now = std::chrono::steady_clock::now();
  if (calls == 0) db.busy_since_ = now;
  if (now - db.busy_since_ >= db.busy_limit_) return 0;
  db.random_ = db.random_ * 6364136223846793005U + 1442695040888963407U;
  std::this_thread::sleep_for(std::chrono::microseconds{100 + (db.random_ >> 33) % 401});
  return 1;
}

}  // namespace canigo::jobs::detail
