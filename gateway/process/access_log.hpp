#pragma once

#include "canigo/time.hpp"

#include "gateway/call/call_record.hpp"
#include "gateway/config/config.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace canigo::gateway {

/// Writes one line of JSON for each request, on a thread of its own, so a reader that stands still stops no loop.
///
/// At most 4 MiB wait to be written. Lines beyond that, and lines that the file does not take, are dropped and counted.
/// Standard error is told of them once a minute at most. If a line broke off in the middle, the next one begins on a
/// line of its own.
/// Threads: any.
class access_log {
 public:
  /// The destination of the lines. It closes a descriptor that it owns.
  class file {
   public:
    file(int descriptor, bool owns) noexcept : descriptor_{descriptor}, owns_{owns} {}
    ~file();
    file(const file&) = delete;
    file& operator=(const file&) = delete;
    int descriptor() const noexcept { return descriptor_; }

   private:
    const int descriptor_;
    const bool owns_;
  };

  /// Opens the destination; null for no log. Throws config_mistake if the file can't be opened.
  static std::shared_ptr<const file> open(const access_log_options& o);

  /// Throws as open() would now. It makes no file: the program may run as another user.
  static void check(const access_log_options& o);

  /// Throws as open() does.
  explicit access_log(const access_log_options& o);
  /// Writes the lines that wait, unless their reader takes nothing for 5 seconds.
  ~access_log();
  access_log(const access_log&) = delete;
  access_log& operator=(const access_log&) = delete;

  void write(const call_record& r);
  /// Further lines go to `f`, and so do those that wait. A piece that the earlier file does not take any more is
  /// dropped.
  void use(std::shared_ptr<const file> f);
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  void run();
  void write_lines(std::shared_ptr<const file> to, std::string_view lines);
  std::size_t write_some(const file& to, std::string_view text);
  bool may_write(const file& to);
  void tell_of_lost(bool is_last = false);

  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<bool> is_on_;
  std::mutex mutex_;
  std::shared_ptr<const file> file_;
  std::condition_variable knock_;
  std::string waiting_;
  std::optional<time_point> ends_;    // the beginning of the destructor; none: it has not begun
  std::shared_ptr<const file> torn_;  // the file whose last line broke off; only for the thread that writes
  std::uint64_t told_ = 0;            // how many lost lines were reported; only for that thread
  time_point told_at_{};              // when lost lines were last reported; only for the writing thread
  std::thread writer_;
};

}  // namespace canigo::gateway
