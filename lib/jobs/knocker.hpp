#pragma once

#include <atomic>
#include <string>

namespace canigo::jobs::detail {

/// Wakes a thread that waits in poll(), by means of a pipe that contains at most one byte.
class knocker {
 public:
  /// Makes the pipe. If that fails, throws std::system_error, whose text contains `whose`: the name of the store.
  explicit knocker(const std::string& whose);
  knocker(const knocker&) = delete;
  knocker& operator=(const knocker&) = delete;
  ~knocker();

  /// Wakes the waiting thread. Threads: any.
  void knock() noexcept;
  /// The descriptor for poll(). It is readable after knock().
  int descriptor() const noexcept { return pipe_[0]; }
  /// Empties the pipe. The thread that waits in poll() calls answer() before it looks for work.
  void answer() noexcept;

 private:
  int pipe_[2] = {-1, -1};
  std::atomic<bool> is_knocked_ = false;
};

}  // namespace canigo::jobs::detail
