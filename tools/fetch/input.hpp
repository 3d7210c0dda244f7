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

/// Reads lines as they arrive. A pipe or a terminal is read without blocking the event loop; a file is read piece by
/// piece.
class line_reader {
 public:
  struct line {
    std::string text;
    bool is_whole = true;  ///< false: the line is longer than `longest_line`, and the text is only its beginning
  };

  /// Opens the input. Throws std::system_error if it can't be read. `path`: a file; "-" is the standard input.
  line_reader(const asio::any_io_executor& executor, const std::string& path);
  ~line_reader();
  line_reader(const line_reader&) = delete;
  line_reader& operator=(const line_reader&) = delete;

  /// Returns the next line without its line end; nothing at the end of the input, or after stop().
  asio::awaitable<std::optional<line>> next();
  /// Ends the input. If a next() is running, it returns nothing.
  void stop();
  /// Returns which part of a file has been returned by next(), from 0 to 1; nothing if the input is no file.
  std::optional<double> part_read() const noexcept;
  /// Returns the error that has ended the input early; false if there was none.
  std::error_code error() const noexcept { return error_; }

  static constexpr std::size_t longest_line = 65536;

 private:
  asio::awaitable<bool> read_more();
  line cut(std::size_t size);

  asio::posix::stream_descriptor descriptor_;
  int file_ = -1;
  int flags_ = 0;         // the original flags of the input's descriptor, which other processes may share
  bool can_wait_ = true;  // false for a regular file, which can't be polled
  off_t size_ = 0;        // how many bytes the input had from its start; 0: unknown
  off_t taken_ = 0;       // how many bytes were read into the buffer so far
  bool at_begin_ = true;
  bool at_end_ = false;
  std::error_code error_;
  std::string buffer_;
  std::size_t read_ = 0;  // the bytes of buffer_ before this position were returned
};

}  // namespace fetch
