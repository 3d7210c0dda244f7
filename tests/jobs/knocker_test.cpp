#include "../../lib/jobs/knocker.hpp"

#include "support/catch.hpp"

#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <poll.h>

using canigo::jobs::detail::knocker;

namespace {

bool is_readable(int descriptor) {
  pollfd fd{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&fd, 1, 0) == 1;
}

}  // namespace

TEST_CASE("however often somebody knocks, one answer is enough", "[jobs]") {
  knocker k{"the test"};
  CHECK_FALSE(is_readable(k.descriptor()));
  k.answer();  // and waits for nothing
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) k.knock();
    CHECK(is_readable(k.descriptor()));
    k.answer();
    CHECK_FALSE(is_readable(k.descriptor()));
  }
}

TEST_CASE("the pipe of a knocker is not inherited, does not block, and is closed", "[jobs]") {
  std::optional<knocker> k{std::in_place, "the test"};
  const int ends[] = {k->descriptor(), k->descriptor() + 1};
  for (const int end : ends) {
    CHECK((::fcntl(end, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK((::fcntl(end, F_GETFL) & O_NONBLOCK) != 0);
  }
  k.reset();
  for (const int end : ends) CHECK(::fcntl(end, F_GETFD) == -1);
}
