#pragma once

#include "gateway/config/money.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace canigo::gateway {

/// Keeps the sums spent in the windows of budgets, in an SQLite file. If the process is killed, no sum that add() has
/// stored is lost. If the machine loses its power, the last sums may be lost.
///
/// Several processes may share one file: each process adds its spending to the sums in the file. Threads: one at a
/// time. A call blocks for about 50 µs, or for up to 3 ms while another process writes. A background thread copies
/// SQLite's log into the file, because this copying waits for the disk.
class spent_store {
 public:
  /// A window of a budget. Its string views must be valid during each call that gets the window.
  struct window {
    std::string_view budget;
    std::string_view calendar;  ///< the unit and the zone, such as "day Europe/Paris"
    std::chrono::sys_seconds begin;
  };
  struct entry {
    window of;
    micro_usd more;     ///< the amount to add to the sum of the window
    micro_usd all = 0;  ///< set by add(): the new sum of the window in the file
  };

  /// Opens the file or creates it. Throws std::runtime_error with SQLite's reason if that fails.
  explicit spent_store(const std::string& path);
  ~spent_store();
  spent_store(const spent_store&) = delete;
  spent_store& operator=(const spent_store&) = delete;
  /// Throws std::runtime_error if the folder of the file does not exist, or if `path` is a folder. Creates no file.
  static void check(const std::string& path);

  /// Returns the sum of a window; nothing if the file can't be read now.
  std::optional<micro_usd> spent(const window& w);
  /// Adds all entries to the file, or none of them. Returns false if the file can't be written now.
  bool add(std::vector<entry>& entries);
  /// Deletes old windows of the budget of `last` from the file. Keeps 64 windows up to `last`, and all later windows.
  void forget_old(const window& last);

 private:
  struct closer {
    void operator()(sqlite3* db) const noexcept;
    void operator()(sqlite3_stmt* s) const noexcept;
  };
  using statement = std::unique_ptr<sqlite3_stmt, closer>;
  class log_mover;

  statement prepare(const char* sql);
  void run(const char* sql);

  std::unique_ptr<sqlite3, closer> db_;
  std::unique_ptr<log_mover> mover_;
  statement begin_, commit_, roll_back_, spent_, add_, forget_;
};

}  // namespace canigo::gateway
