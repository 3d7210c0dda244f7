#include "gateway/process/access_log.hpp"

#include "canigo/error.hpp"

#include "gateway/config/report.hpp"
#include "gateway/process/log_line.hpp"
#include "gateway/wire/standard_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace canigo::gateway {
namespace {

constexpr std::size_t most_waiting = 4 << 20;
// How long the thread waits after the first new line before it writes. More lines come in this time, so the thread is
// woken only once for many lines.
constexpr duration gathering = std::chrono::milliseconds{10};
// How long the destructor waits for the reader of a pipe if the reader reads nothing.
constexpr duration patience_with_reader = std::chrono::seconds{5};

/// Returns the lines for one write. For a regular file these are all lines. Otherwise they are whole lines up to the
/// size that a pipe accepts atomically. So lines of other processes are not mixed into them, and a write does not block
/// if the pipe has space for this size.
std::string_view first_piece(std::string_view lines, bool is_regular) {
  if (is_regular || lines.size() <= PIPE_BUF) return lines;
  const auto last = lines.rfind('\n', PIPE_BUF - 1);
  return lines.substr(0, last == lines.npos ? PIPE_BUF : last + 1);
}

bool is_same_file(const access_log::file& a, const access_log::file& b) {
  struct stat one{}, other{};
  return ::fstat(a.descriptor(), &one) == 0 && ::fstat(b.descriptor(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

bool is_regular_file(int descriptor) noexcept {
  struct stat what{};
  return ::fstat(descriptor, &what) == 0 && S_ISREG(what.st_mode);
}

/// Whether the file is a regular file whose last line was cut off, for example because its writer was killed. Returns
/// false if the file can't be read.
bool is_cut_off(const std::string& path) noexcept {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  struct stat what{};
  char last = '\n';
  const bool is_read = ::fstat(descriptor, &what) == 0 && S_ISREG(what.st_mode) && what.st_size > 0 &&
                       ::pread(descriptor, &last, 1, what.st_size - 1) == 1;
  ::close(descriptor);
  return is_read && last != '\n';
}

bool is_named_pipe(const std::string& path) noexcept {
  struct stat what{};
  return ::stat(path.c_str(), &what) == 0 && S_ISFIFO(what.st_mode);
}

[[noreturn]] void fail() {
  throw config_mistake{"access_log", ": " + error_code{errno, std::system_category()}.message()};
}

}  // namespace

access_log::file::file(int descriptor, bool owns, bool ends_in_line) noexcept
    : descriptor_{descriptor}, owns_{owns}, is_regular_{is_regular_file(descriptor)}, ends_in_line_{ends_in_line} {}

access_log::file::~file() {
  if (owns_) ::close(descriptor_);
}

std::shared_ptr<const access_log::file> access_log::open(const access_log_options& o) {
  if (o.to == access_log_options::kind::off) return nullptr;
  if (o.to == access_log_options::kind::standard_output) return std::make_shared<file>(STDOUT_FILENO, false);
  // A named pipe is opened for reading as well. Otherwise open() would wait for a reader, and lines would be lost each
  // time the reader ends.
  const int how = is_named_pipe(o.path) ? O_RDWR : O_WRONLY;
  const int descriptor = ::open(o.path.c_str(), how | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (descriptor < 0) fail();
  return std::make_shared<file>(descriptor, true, is_cut_off(o.path));
}

void access_log::check(const access_log_options& o) {
  if (o.to != access_log_options::kind::file) return;
  const int how = is_named_pipe(o.path) ? O_RDWR : O_WRONLY;
  const int descriptor = ::open(o.path.c_str(), how | O_APPEND | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0) {
    ::close(descriptor);
    return;
  }
  // If the file does not exist, that is no error, because open() will create it.
  if (errno != ENOENT) fail();
  const std::string folder = std::filesystem::absolute(o.path).parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) != 0) fail();
}

access_log::access_log(const access_log_options& o) : is_on_{false}, file_{open(o)} {
  is_on_ = file_ != nullptr;
  writer_ = std::thread{[this] { run(); }};
}

access_log::~access_log() {
  {
    const std::lock_guard lock{mutex_};
    ends_ = std::chrono::steady_clock::now();
  }
  knock_.notify_one();
  writer_.join();
}

void access_log::use(std::shared_ptr<const file> f) {
  const std::lock_guard lock{mutex_};
  is_on_.store(f != nullptr, std::memory_order_relaxed);
  is_file_new_ = true;
  std::swap(file_, f);
}

void access_log::write(const call_record& r) {
  if (!is_on_.load(std::memory_order_relaxed)) return;
  const std::string line = log_line(r);
  bool is_first = false;
  {
    const std::lock_guard lock{mutex_};
    if (waiting_.size() + line.size() > most_waiting) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    is_first = waiting_.empty();
    waiting_ += line;
  }
  if (is_first) knock_.notify_one();
}

void access_log::run() {
  for (bool ends = false; !ends;) {
    std::string lines;
    std::shared_ptr<const file> to;
    bool is_new = false;
    {
      std::unique_lock lock{mutex_};
      knock_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      knock_.wait_for(lock, gathering, [this] { return ends_.has_value(); });
      ends = ends_.has_value();
      std::swap(lines, waiting_);
      to = file_;
      is_new = std::exchange(is_file_new_, false);
    }
    if (to) write_lines(std::move(to), is_new, lines);
    tell_of_lost(ends);
  }
}

void access_log::tell_of_lost(bool is_last) {
  const std::uint64_t lost = dropped();
  const time_point now = std::chrono::steady_clock::now();
  if (lost == told_ || (!is_last && told_ != 0 && now - told_at_ < std::chrono::minutes{1})) return;
  say("{} lines of the access log could not be written", lost - told_);
  told_ = lost;
  told_at_ = now;
}

void access_log::write_lines(std::shared_ptr<const file> to, bool is_new, std::string_view lines) {
  if (is_new && to->ends_in_line()) torn_ = to;
  const bool goes_on_in_a_line = torn_ && is_same_file(*torn_, *to);
  if (!goes_on_in_a_line || write_some(*to, "\n") == 1) torn_.reset();
  const std::size_t written = torn_ ? 0 : write_some(*to, lines);
  if (written > 0 && lines[written - 1] != '\n') torn_ = std::move(to);
  const auto lost = std::ranges::count(lines.substr(written), '\n');
  dropped_.fetch_add(static_cast<std::uint64_t>(lost), std::memory_order_relaxed);
}

/// Writes as much of the text as the file accepts. Returns the number of bytes that were written before an error, or
/// before may_write() returned false.
std::size_t access_log::write_some(const file& to, std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && (to.is_regular() || may_write(to))) {
    const std::string_view piece = first_piece(text.substr(at), to.is_regular());
    const auto n = ::write(to.descriptor(), piece.data(), piece.size());
    if (n < 0 && errno != EINTR && errno != EAGAIN) break;
    if (n > 0) at += static_cast<std::size_t>(n);
  }
  return at;
}

/// Waits until a write does not block. Returns false if the reader reads nothing and the destructor has waited long
/// enough, or if use() has set another file.
bool access_log::may_write(const file& to) {
  constexpr int look_every = 100;  // the time between two checks, in milliseconds
  pollfd room{to.descriptor(), POLLOUT, 0};
  while (::poll(&room, 1, look_every) <= 0) {
    tell_of_lost();
    const std::lock_guard lock{mutex_};
    if (ends_ && std::chrono::steady_clock::now() - *ends_ > patience_with_reader) return false;
    if (file_.get() != &to) return false;
  }
  return true;
}

}  // namespace canigo::gateway
