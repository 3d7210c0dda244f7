#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <cstddef>
#include <optional>
#include <string>

namespace fetch {

/// Reads lines as they come, from a pipe or a terminal without holding up the loop, from a file in pieces.
class line_reader {
 public:
  /// Throws std::system_error if the file can't be opened. `-` is the standard input.
  line_reader(const asio::any_io_executor& executor, const std::string& path);
  ~line_reader();
  line_reader(const line_reader&) = delete;
  line_reader& operator=(const line_reader&) = delete;

  /// The next line without its end, cut after `longest_line` bytes; nothing at the end of the input, or after stop().
  asio::awaitable<std::optional<std::string>> next();
  /// The next line and its successors are not wanted any more. One that next() waits for is not either.
  void stop();

  static constexpr std::size_t longest_line = 8192;

 private:
  asio::awaitable<bool> read_more();

  asio::posix::stream_descriptor descriptor_;
  int file_ = -1;
  int flags_ = 0;         // of the standard input, which we share with others, as they were
  bool can_wait_ = true;  // not a regular file, which is always ready
  bool at_end_ = false;
  std::string buffer_;
  std::size_t read_ = 0;  // of buffer_, up to here
};

}  // namespace fetch
