#include "gateway/policy/spent_store.hpp"

#include "gateway/config/file_kind.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <sqlite3.h>
#include <stdexcept>
#include <thread>
#include <utility>

namespace canigo::gateway {
namespace {

using std::chrono::milliseconds;

constexpr int kept_windows = 64;
constexpr milliseconds patience_to_open{1'000}, patience_to_write{3};

/// Opens the database file. Throws std::runtime_error if that fails.
sqlite3* opened(const std::string& path) {
  sqlite3* db = nullptr;
  const int code =
      ::sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    ::sqlite3_close_v2(db);
    throw std::runtime_error{::sqlite3_errstr(code)};
  }
  ::sqlite3_busy_timeout(db, static_cast<int>(milliseconds{patience_to_open}.count()));
  return db;
}

/// Binds the values of a window to the parameters 1 to 3 of a statement.
void bind(sqlite3_stmt* s, const spent_store::window& w) noexcept {
  ::sqlite3_bind_text(s, 1, w.budget.data(), static_cast<int>(w.budget.size()), SQLITE_STATIC);
  ::sqlite3_bind_text(s, 2, w.calendar.data(), static_cast<int>(w.calendar.size()), SQLITE_STATIC);
  ::sqlite3_bind_int64(s, 3, w.begin.time_since_epoch().count());
}

/// Runs a statement. Returns the value of its one row; 0 if it has no row; nothing if the statement fails.
std::optional<micro_usd> value_of(sqlite3_stmt* s) noexcept {
  micro_usd value = 0;
  int code = ::sqlite3_step(s);
  if (code == SQLITE_ROW) {
    value = static_cast<micro_usd>(::sqlite3_column_int64(s, 0));
    code = ::sqlite3_step(s);
  }
  ::sqlite3_reset(s);
  return code == SQLITE_DONE ? std::optional{value} : std::nullopt;
}

}  // namespace

void spent_store::closer::operator()(sqlite3* db) const noexcept { ::sqlite3_close_v2(db); }
void spent_store::closer::operator()(sqlite3_stmt* s) const noexcept { ::sqlite3_finalize(s); }

/// Copies SQLite's write-ahead log into the database file when the log has become long. It uses a thread and a
/// connection of its own, so that writers do not wait for the disk.
class spent_store::log_mover {
 public:
  explicit log_mover(const std::string& path) : db_{opened(path)}, thread_{[this] { run(); }} {}
  ~log_mover() {
    {
      const std::lock_guard lock{mutex_};
      has_ended_ = true;
    }
    knock_.notify_one();
    thread_.join();
  }
  log_mover(const log_mover&) = delete;
  log_mover& operator=(const log_mover&) = delete;

  /// The hook that SQLite calls after each commit. If the log is long, the hook wakes the thread that copies the log.
  static int look(void* mover, sqlite3*, const char*, int pages) {
    if (pages >= long_log) static_cast<log_mover*>(mover)->ask(pages);
    return SQLITE_OK;
  }

 private:
  // A log of at least this many pages of 4 KiB is copied.
  static constexpr int long_log = 1'000;
  // If there are always writers, the log may grow to this number of pages. Then the writers wait once until the log is
  // copied.
  static constexpr int longest_log = 16'000;

  void ask(int pages) {
    {
      const std::lock_guard lock{mutex_};
      pages_ = pages;
    }
    knock_.notify_one();
  }
  void run() {
    std::unique_lock lock{mutex_};
    for (;;) {
      knock_.wait(lock, [this] { return has_ended_ || pages_ > 0; });
      if (has_ended_) return;
      const int mode = std::exchange(pages_, 0) < longest_log ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_RESTART;
      lock.unlock();
      ::sqlite3_wal_checkpoint_v2(db_.get(), nullptr, mode, nullptr, nullptr);
      lock.lock();
    }
  }

  std::unique_ptr<sqlite3, closer> db_;
  std::mutex mutex_;
  std::condition_variable knock_;
  int pages_ = 0;  // the log's length in pages when the hook last asked to copy the log; 0: no copy is to be made
  bool has_ended_ = false;
  std::thread thread_;
};

spent_store::spent_store(const std::string& path) : db_{opened(path)} {
  // With synchronous = NORMAL, a commit does not wait for the disk. A commit survives a crash of the process, but the
  // last commits may be lost if the machine loses its power. The file stays intact in both cases.
  run("PRAGMA journal_mode = WAL");
  run("PRAGMA synchronous = NORMAL");
  run("CREATE TABLE IF NOT EXISTS canigo_spent (budget TEXT NOT NULL, calendar TEXT NOT NULL, begins INTEGER NOT NULL, "
      "micro_usd INTEGER NOT NULL, PRIMARY KEY (budget, calendar, begins)) WITHOUT ROWID");
  mover_ = std::make_unique<log_mover>(path);
  // Replaces SQLite's own hook, which would copy the log into the database file during a commit.
  ::sqlite3_wal_hook(db_.get(), &log_mover::look, mover_.get());
  begin_ = prepare("BEGIN IMMEDIATE");
  commit_ = prepare("COMMIT");
  roll_back_ = prepare("ROLLBACK");
  spent_ = prepare("SELECT micro_usd FROM canigo_spent WHERE budget = ?1 AND calendar = ?2 AND begins = ?3");
  add_ = prepare(
      "INSERT INTO canigo_spent VALUES (?1, ?2, ?3, ?4) "
      "ON CONFLICT DO UPDATE SET micro_usd = micro_usd + excluded.micro_usd RETURNING micro_usd");
  forget_ = prepare(
      "DELETE FROM canigo_spent WHERE budget = ?1 AND calendar = ?2 AND begins < (SELECT begins FROM canigo_spent "
      "WHERE budget = ?1 AND calendar = ?2 AND begins <= ?3 ORDER BY begins DESC LIMIT 1 OFFSET ?4)");
  ::sqlite3_busy_timeout(db_.get(), static_cast<int>(patience_to_write.count()));
}

spent_store::~spent_store() = default;

void spent_store::check(const std::string& path) {
  if (!is_directory(path.substr(0, path.rfind('/') + 1))) throw std::runtime_error{"its folder is missing"};
  if (is_directory(path)) throw std::runtime_error{"it is a folder"};
}

std::optional<micro_usd> spent_store::spent(const window& w) {
  bind(spent_.get(), w);
  return value_of(spent_.get());
}

bool spent_store::add(std::vector<entry>& entries) {
  if (!value_of(begin_.get())) return false;
  for (entry& e : entries) {
    bind(add_.get(), e.of);
    ::sqlite3_bind_int64(add_.get(), 4, static_cast<sqlite3_int64>(e.more));
    const auto all = value_of(add_.get());
    if (!all) {
      value_of(roll_back_.get());
      return false;
    }
    e.all = *all;
  }
  if (value_of(commit_.get())) return true;
  value_of(roll_back_.get());
  return false;
}

void spent_store::forget_old(const window& last) {
  bind(forget_.get(), last);
  ::sqlite3_bind_int(forget_.get(), 4, kept_windows - 1);
  value_of(forget_.get());
}

spent_store::statement spent_store::prepare(const char* sql) {
  sqlite3_stmt* made = nullptr;
  if (::sqlite3_prepare_v3(db_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr) != SQLITE_OK)
    throw std::runtime_error{::sqlite3_errmsg(db_.get())};
  return statement{made};
}

void spent_store::run(const char* sql) {
  if (::sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    throw std::runtime_error{::sqlite3_errmsg(db_.get())};
}

}  // namespace canigo::gateway
