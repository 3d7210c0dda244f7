#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <sys/types.h>
#include <system_error>

namespace fetch {

/// Reads lines as they come, from a pipe or a terminal without holding up the loop, from a file in pieces.
class line_reader {
 public:
  struct line {
    std::string text;
    bool is_whole = true;  ///< else only its beginning: it is longer than `longest_line`
  };

  /// Throws std::system_error if the file can't be read. `-` is the standard input.
  line_reader(const asio::any_io_executor& executor, const std::string& path);
  ~line_reader();
  line_reader(const line_reader&) = delete;
  line_reader& operator=(const line_reader&) = delete;

  /// The next line without its end; nothing at the end of the input, or after stop().
  asio::awaitable<std::optional<line>> next();
  /// The next line and its successors are not wanted any more. One that next() waits for is not either.
  void stop();
  /// Of a file, the part whose lines next() has given, from 0 to 1; unset for any other input.
  std::optional<double> part_read() const noexcept;
  /// Why the input ended before its end.
  std::error_code error() const noexcept { return error_; }

  static constexpr std::size_t longest_line = 65536;

 private:
  asio::awaitable<bool> read_more();
  line cut(std::size_t size);

  asio::posix::stream_descriptor descriptor_;
  int file_ = -1;
  int flags_ = 0;         // of the standard input, which we share with others, as they were
  bool can_wait_ = true;  // not a regular file, which is always ready
  off_t size_ = 0;        // of what is there to read; 0: unknown
  off_t taken_ = 0;       // of that, into the buffer
  bool at_begin_ = true;
  bool at_end_ = false;
  std::error_code error_;
  std::string buffer_;
  std::size_t read_ = 0;  // of buffer_, up to here
};

}  // namespace fetch
