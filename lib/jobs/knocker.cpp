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
  // A call that does not block is not interrupted, and in an empty pipe there is room for a byte.
  if (!is_knocked_.exchange(true)) std::ignore = ::write(pipe_[1], "k", 1);
}

void knocker::answer() noexcept {
  // The pipe is read first: a knock in between writes nothing, but its work is there already. A byte that is still on
  // its way ends a later wait at once, which does no harm.
  char bytes[16];
  std::ignore = ::read(pipe_[0], bytes, sizeof bytes);
  is_knocked_ = false;
}

}  // namespace canigo::jobs::detail
