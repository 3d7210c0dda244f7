#include "gateway/wire/standard_error.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <poll.h>
#include <unistd.h>

namespace canigo::gateway {

void write_to_standard_error(std::string_view text, duration patience) noexcept {
  // Without this lock, two threads could find the same free space in the pipe of standard error, and the second write
  // would block.
  static std::mutex mutex;
  const std::lock_guard lock{mutex};
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!text.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd room{STDERR_FILENO, POLLOUT, 0};
    const int ready = ::poll(&room, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;  // a signal has interrupted the call: repeat it
    if (ready <= 0) return;
    // If standard error is a pipe that is ready for writing, it accepts PIPE_BUF bytes without blocking.
    const auto n = ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace canigo::gateway
