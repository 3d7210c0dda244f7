#pragma once

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace redis_test {

/// A child process, which ends with this process at the latest. Make it only while there is a single thread.
class process {
 public:
  template <class Work>
  explicit process(Work work) {
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error{"fork"};
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      work();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  process(process&& other) noexcept : pid_{std::exchange(other.pid_, 0)} {}
  process& operator=(process&&) = delete;
  ~process() { kill(); }

  /// Kills the process. It may already have ended.
  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  bool has_ended() {
    if (pid_ != 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
    return pid_ == 0;
  }

 private:
  pid_t pid_ = 0;
};

/// Makes a process that runs `work(ready)`. Returns when that process has called ready().
template <class Work>
process ready_process(Work work) {
  int said[2];
  if (::pipe(said) != 0) throw std::runtime_error{"pipe"};
  process p{[&] {
    ::close(said[0]);
    work([out = said[1]] {
      if (::write(out, "!", 1) != 1) ::_exit(1);
      ::close(out);
    });
  }};
  ::close(said[1]);
  char byte = 0;
  const bool is_ready = ::read(said[0], &byte, 1) == 1;
  ::close(said[0]);
  if (!is_ready) throw std::runtime_error{"the process ended before it was ready"};
  return p;
}

}  // namespace redis_test
