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

/// Writes one line of JSON per request, on a thread of its own. So if the reader of a pipe stops reading, no event loop
/// is blocked.
///
/// At most 4 MiB of lines wait to be written. Further lines, and lines that can't be written, are dropped and counted.
/// The number of dropped lines is reported on standard error at most once a minute. If a line was cut off, the next
/// line still begins on a new line. Threads: any.
class access_log {
 public:
  /// A file descriptor to which lines are written. The destructor closes the descriptor if it is owned.
  class file {
   public:
    file(int descriptor, bool owns, bool ends_in_line = false) noexcept;
    ~file();
    file(const file&) = delete;
    file& operator=(const file&) = delete;
    int descriptor() const noexcept { return descriptor_; }
    /// Whether it is a regular file. Such a file has no reader that a write could wait for.
    bool is_regular() const noexcept { return is_regular_; }
    /// Whether the last line of the file was cut off when the file was opened.
    bool ends_in_line() const noexcept { return ends_in_line_; }

   private:
    const int descriptor_;
    const bool owns_;
    const bool is_regular_;
    const bool ends_in_line_;
  };

  /// Opens the file that the options name. Returns null if the options ask for no log. Throws config_mistake if the
  /// file can't be opened.
  static std::shared_ptr<const file> open(const access_log_options& o);

  /// Throws config_mistake if open() would fail now. Creates no file, because a new file would belong to the present
  /// user, and the gateway may later run as another user.
  static void check(const access_log_options& o);

  /// Opens the log. Throws config_mistake if the file can't be opened.
  explicit access_log(const access_log_options& o);
  /// Writes the lines that still wait to be written. If the log is a pipe, and its reader reads nothing for 5 seconds,
  /// drops the remaining lines.
  ~access_log();
  access_log(const access_log&) = delete;
  access_log& operator=(const access_log&) = delete;

  void write(const call_record& r);
  /// From now on writes all lines to `f`, including those that still wait to be written. Lines that are being written
  /// to the earlier file now are dropped if that file does not accept them.
  void use(std::shared_ptr<const file> f);
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  void run();
  void write_lines(std::shared_ptr<const file> to, bool is_new, std::string_view lines);
  std::size_t write_some(const file& to, std::string_view text);
  bool may_write(const file& to);
  void tell_of_lost(bool is_last = false);

  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<bool> is_on_;
  std::mutex mutex_;
  std::shared_ptr<const file> file_;
  bool is_file_new_ = true;  // whether no line was written to file_ yet
  std::condition_variable knock_;
  std::string waiting_;
  std::optional<time_point> ends_;  // when the destructor began; none: it has not begun
  // the file in which the last line was cut off, if any; only the writing thread uses it
  std::shared_ptr<const file> torn_;
  std::uint64_t told_ = 0;  // the number of lost lines that were reported; only the writing thread uses it
  time_point told_at_{};    // when lost lines were last reported; only the writing thread uses it
  std::thread writer_;
};

}  // namespace canigo::gateway
