#include "knocker.hpp"

#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <tuple>
#include <unistd.h>

namespace canigo::jobs::detail {

knocker::knocker(const std::string& whose) {
  if (::pipe(pipe_) != 0) throw std::system_error{errno, std::system_category(), whose + ": a pipe for its thread"};
  for (const int end : pipe_) {
    ::fcntl(end, F_SETFD, FD_CLOEXEC);
    ::fcntl(end, F_SETFL, O_NONBLOCK);
  }
}

knocker::~knocker() {
  for (const int end : pipe_) ::close(end);
}

void knocker::knock() noexcept {
  // The write can't fail: a non-blocking write is not interrupted by signals, and an empty pipe has space for a byte.
  if (!is_knocked_.exchange(true)) std::ignore = ::write(pipe_[1], "k", 1);
}

void knocker::answer() noexcept {
  // The pipe is read before the flag is cleared. A knock between these two steps writes no byte, which is harmless: the
  // caller looks for work after answer() anyway. A byte that arrives after the read only ends the next wait early.
  char bytes[16];
  std::ignore = ::read(pipe_[0], bytes, sizeof bytes);
  is_knocked_ = false;
}

}  // namespace canigo::jobs::detail
