// The tests are built so that the standard library looks at what it is asked for.

#include "support/catch.hpp"

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#ifdef __GLIBCXX__

TEST_CASE("an index that is out of range ends a test") {
  const std::vector<int> three{1, 2, 3};
  const volatile std::size_t beyond = three.size();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // else the test framework reports it
    std::fclose(stderr);
    _exit(three[beyond]);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

#endif
