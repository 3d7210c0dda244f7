#pragma once

#include <atomic>
#include <string>

namespace canigo::jobs::detail {

/// Wakes a thread that waits in poll(): a pipe with a byte in it, or none.
class knocker {
 public:
  /// Throws std::system_error. `whose` is for its text.
  explicit knocker(const std::string& whose);
  knocker(const knocker&) = delete;
  knocker& operator=(const knocker&) = delete;
  ~knocker();

  /// Threads: any.
  void knock() noexcept;
  /// Readable after a knock.
  int descriptor() const noexcept { return pipe_[0]; }
  /// The thread that waits calls this before it looks for work.
  void answer() noexcept;

 private:
  int pipe_[2] = {-1, -1};
  std::atomic<bool> is_knocked_ = false;
};

}  // namespace canigo::jobs::detail
