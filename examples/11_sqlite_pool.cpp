// SQLite in a server with an event loop. SQLite's calls block, so they run on separate threads with at most three
// connections, and the loop waits for none of them.
#include <canigo/resource_pool.hpp>
#include <canigo/task_group.hpp>

#include <asio.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

struct database {
  explicit database(const std::string& path) {
    sqlite3* opened = nullptr;
    const int error = sqlite3_open(path.c_str(), &opened);
    handle.reset(opened);
    if (error != SQLITE_OK) throw std::runtime_error{sqlite3_errmsg(opened)};
    sqlite3_busy_timeout(opened, 10'000);
    query("pragma journal_mode = wal; pragma synchronous = off");
  }
  /// Returns the first column of the last row; empty if there is no row.
  std::string query(const std::string& sql) {
    std::string value;
    const auto keep = [](void* to, int, char** columns, char**) {
      *static_cast<std::string*>(to) = columns[0] != nullptr ? columns[0] : "";
      return 0;
    };
    if (sqlite3_exec(handle.get(), sql.c_str(), keep, &value, nullptr) == SQLITE_OK) return value;
    throw std::runtime_error{sqlite3_errmsg(handle.get())};
  }
  std::unique_ptr<sqlite3, decltype([](sqlite3* s) { sqlite3_close(s); })> handle;
};

asio::awaitable<void> visit(canigo::resource_pool<database>& pool, int number) {
  const auto insert = [number](database& db, canigo::task_context&) {
    return db.query(fmt::format("insert into visits values ({})", number));
  };
  co_await pool.run(insert, {.name = "insert"});
}

asio::awaitable<void> serve(canigo::resource_pool<database>& pool) {
  const auto ask = [&pool](std::string sql) -> asio::awaitable<void> {
    const auto query = [&sql](database& db, canigo::task_context&) { return db.query(sql); };
    try {
      fmt::print("{}: {}\n", sql, co_await pool.run(query));
    } catch (const std::exception& e) {
      fmt::print("{}: failed, {}\n", sql, e.what());
    }
  };
  co_await ask("create table visits (number integer)");
  canigo::task_group visitors{co_await asio::this_coro::executor};
  for (int i = 1; i <= 100; ++i) visitors.spawn(visit(pool, i));
  co_await visitors.join();
  co_await ask("select count(*) from visits");
  co_await ask("select sum(number) from visits");
  co_await ask("select number from guests");
  co_await pool.stop();
}

int main() {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("canigo_visits_{}.db", getpid());
  asio::io_context io;
  asio::thread_pool threads{4};  // three for calls that block, and one for the timers
  {
    canigo::resource_pool<database> pool{threads, {.concurrency = 3, .make = [&] { return database{path.string()}; }}};
    asio::co_spawn(io, serve(pool), [](const std::exception_ptr& e) {
      if (e) std::rethrow_exception(e);
    });
    io.run();
  }
  threads.join();
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);
}
