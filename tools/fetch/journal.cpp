#include "journal.hpp"

#include "text.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace fetch {

namespace {

constexpr std::string_view head = "canigo-fetch journal 1";

/// Reads a number that is followed by the text `after`, and removes both from `text`. Returns false if `text` does not
/// begin with a number and `after`.
template <class Number>
bool take(std::string_view& text, Number& value, int base, std::string_view after) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const bool is_good = error == std::errc{} && text.starts_with(after);
  if (is_good) text.remove_prefix(after.size());
  return is_good;
}

}  // namespace

journal::journal(const std::string& path) : path_{path} {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file_ < 0) fail(errno);
  try {
    read();
  } catch (...) {
    ::close(file_);
    throw;
  }
}

journal::~journal() { ::close(file_); }

void journal::fail(int why) const { throw std::system_error{why, std::system_category(), printable(path_)}; }

void journal::refuse(const std::string& why) const {
  throw std::system_error{std::make_error_code(std::errc::invalid_argument), printable(path_) + ": " + why};
}

void journal::read() {
  struct stat status{};
  if (::fstat(file_, &status) != 0) fail(errno);
  if (!S_ISREG(status.st_mode)) refuse("no regular file");
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) refuse("another process has it");
    fail(errno);
  }
  std::string text;
  std::size_t number = 0;
  off_t whole = 0;  // the number of bytes up to the end of the last whole line
  for (;;) {
    constexpr std::size_t piece = 1 << 16;
    const std::size_t size = text.size();
    // No journal has such a long line, even if a crash has damaged the journal. So the file is no journal.
    if (size > piece) refuse("no journal of canigo-fetch");
    text.resize(size + piece);
    const ssize_t n = ::read(file_, text.data() + size, piece);
    text.resize(size + static_cast<std::size_t>(n > 0 ? n : 0));
    if (n < 0 && errno != EINTR) fail(errno);
    if (n == 0) break;
    std::size_t begin = 0;
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
      read_line(std::string_view{text}.substr(begin, end - begin), ++number);
      whole += static_cast<off_t>(end + 1 - begin);
      begin = end + 1;
    }
    text.erase(0, begin);
  }
  if (number == 0 && !head.starts_with(text)) refuse("no journal of canigo-fetch");
  if (!text.empty() && ::ftruncate(file_, whole) != 0) fail(errno);
  if (number == 0) write(fmt::format("{}\n", head));
}

void journal::read_line(std::string_view line, std::size_t number) {
  if (number == 1) {
    if (line != head) refuse("no journal of canigo-fetch");
    return;
  }
  std::size_t order = 0;
  std::uint64_t hash = 0;
  const bool is_good = take(line, order, 10, " ") && take(line, hash, 16, "") && line.empty();
  if (!is_good) refuse(fmt::format("line {} is no entry of a journal", number));
  done_[order] = hash;
}

// Computes a 64-bit FNV-1a hash. Source: G. Fowler, L. C. Noll, K.-P. Vo; RFC 9923.
std::uint64_t journal::hash_of(std::string_view line) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : line) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

bool journal::has(std::size_t order, std::uint64_t hash) {
  const auto entry = done_.find(order);
  if (entry == done_.end()) return false;
  if (entry->second != hash) refuse(fmt::format("of another list: its call {} is a different one", order));
  done_.erase(entry);
  return true;
}

void journal::add(std::size_t order, std::uint64_t hash) { write(fmt::format("{} {:016x}\n", order, hash)); }

void journal::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file_, text.data(), text.size());
    if (n < 0 && errno != EINTR) fail(errno);
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace fetch
