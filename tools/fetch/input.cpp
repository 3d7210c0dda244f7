#include "input.hpp"

#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace fetch {

line_reader::line_reader(const asio::any_io_executor& executor, const std::string& path) : descriptor_{executor} {
  const auto fail = [&](int why) {
    if (file_ >= 0) ::close(file_);
    throw std::system_error{why, std::system_category(), path == "-" ? "standard input" : path};
  };
  file_ = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) fail(errno);
  flags_ = ::fcntl(file_, F_GETFL);
  struct stat status{};
  if (::fstat(file_, &status) != 0) fail(errno);
  if (S_ISDIR(status.st_mode)) fail(EISDIR);
  const off_t at = ::lseek(file_, 0, SEEK_CUR);
  if (S_ISREG(status.st_mode) && at >= 0 && at < status.st_size) size_ = status.st_size - at;
  if ((flags_ & O_ACCMODE) == O_WRONLY) fail(EBADF);
  std::error_code can_not_be_polled;
  descriptor_.assign(file_, can_not_be_polled);
  can_wait_ = !can_not_be_polled;
}

line_reader::~line_reader() {
  if (descriptor_.is_open()) descriptor_.release();
  // Restores the original flags, because a terminal that stays non-blocking would confuse the shell.
  ::fcntl(file_, F_SETFL, flags_);
  ::close(file_);
}

asio::awaitable<std::optional<line_reader::line>> line_reader::next() {
  for (;;) {
    const auto end = buffer_.find('\n', read_);
    if (end != std::string::npos) {
      line l = cut(end - read_);
      read_ = end + 1;
      co_return l;
    }
    // If a line is too long, only its first `longest_line` bytes and one more byte are kept. The additional byte shows
    // that the line is too long.
    if (buffer_.size() - read_ > longest_line) buffer_.resize(read_ + longest_line + 1);
    if (!co_await read_more()) {
      if (read_ == buffer_.size()) co_return std::nullopt;
      line l = cut(buffer_.size() - read_);
      read_ = buffer_.size();
      co_return l;
    }
  }
}

line_reader::line line_reader::cut(std::size_t size) {
  std::string_view text{buffer_.data() + read_, std::min(size, longest_line)};
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (at_begin_ && text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  at_begin_ = false;
  return {std::string{text}, size <= longest_line};
}

asio::awaitable<bool> line_reader::read_more() {
  if (at_end_) co_return false;
  if (can_wait_) {
    std::error_code error;
    co_await descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                                    asio::redirect_error(asio::use_awaitable, error));
  } else {
    co_await asio::post(descriptor_.get_executor(),
                        asio::use_awaitable);  // lets other handlers run between two pieces of a long file
  }
  if (at_end_) co_return false;
  buffer_.erase(0, read_);
  read_ = 0;
  std::array<char, 16384> piece;
  const ssize_t n = ::read(file_, piece.data(), piece.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) co_return true;
  if (n < 0) error_.assign(errno, std::system_category());
  if (n <= 0) at_end_ = true;
  if (n > 0) buffer_.append(piece.data(), static_cast<std::size_t>(n));
  if (n > 0) taken_ += n;
  co_return n > 0;
}

std::optional<double> line_reader::part_read() const noexcept {
  if (size_ == 0) return std::nullopt;
  const double given = static_cast<double>(taken_) - static_cast<double>(buffer_.size() - read_);
  return std::min(1.0, given / static_cast<double>(size_));  // at most 1, because the file may grow during the run
}

void line_reader::stop() {
  at_end_ = true;
  buffer_.clear();
  read_ = 0;
  if (can_wait_) descriptor_.cancel();
}

}  // namespace fetch
