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

/// The sums that were spent in the windows of budgets, in a file of SQLite. A process that is killed loses no sum that
/// add() has kept; a machine that loses its power may lose the last moments.
///
/// Several processes may use one file: each adds to the sums that the others have kept.
/// Threads: one at a time. Blocks for some 50 µs, and while another process writes, for up to a second. A thread of its
/// own moves SQLite's log into the file, because that waits for the disk.
class spent_store {
 public:
  /// A window of a budget. The views must outlive each call that gets it.
  struct window {
    std::string_view budget;
    std::string_view calendar;  ///< the unit and the zone, as "day Europe/Paris"
    std::chrono::sys_seconds begin;
  };
  struct entry {
    window of;
    micro_usd more;     ///< is added
    micro_usd all = 0;  ///< after add(): the new sum
  };

  /// Throws std::runtime_error, whose text has SQLite's reason, if the file can't be opened or made.
  explicit spent_store(const std::string& path);
  ~spent_store();
  spent_store(const spent_store&) = delete;
  spent_store& operator=(const spent_store&) = delete;
  /// Throws as the constructor does if there is no folder for the file. Makes no file.
  static void check(const std::string& path);

  /// The sum of a window; nothing: the file can't be read now.
  std::optional<micro_usd> spent(const window& w);
  /// Adds all of them or none. False: none, because the file can't be written now.
  bool add(std::vector<entry>& entries);
  /// Forgets all but the last windows of a budget.
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
