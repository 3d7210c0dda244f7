#pragma once

#include "gateway/config/config.hpp"
#include "gateway/http/call_record.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace canigo::gateway {

/// One line of JSON for each request. A thread of its own writes them, so a reader that stops stops no loop.
///
/// At most 4 MiB wait to be written. Beyond that, lines are dropped and counted.
/// Threads: any.
class access_log {
 public:
  /// Throws system_error if the file can't be opened.
  explicit access_log(const access_log_options& o);
  /// Writes what waits.
  ~access_log();
  access_log(const access_log&) = delete;
  access_log& operator=(const access_log&) = delete;

  void write(const call_record& r);
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  void run();

  int descriptor_ = -1;  // -1: no log
  bool owns_ = false;
  std::atomic<std::uint64_t> dropped_{0};
  std::mutex mutex_;
  std::condition_variable knock_;
  std::string waiting_;
  bool ends_ = false;
  std::thread writer_;
};

}  // namespace canigo::gateway
