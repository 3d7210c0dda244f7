#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <utility>

namespace canigo::detail {

/// How many callers a drain resumes before the rest of the loop has its turn.
inline constexpr int resumptions_per_turn = 128;
/// A step that failed for lack of memory is tried again after this time.
inline constexpr duration retry_after = std::chrono::milliseconds{1};

/// A caller that is suspended: its completion handler, and the way back to it.
///
/// The code that ends the wait calls exactly one of resume, post and destroy, once.
class suspended {
 public:
  suspended() = default;
  suspended(const suspended&) = delete;
  suspended& operator=(const suspended&) = delete;

  /// Frees this and calls the handler. Only on the handler's executor.
  virtual void resume() = 0;
  /// Posts resume() to the handler's executor. If that throws, nothing has happened.
  virtual void post() = 0;
  /// Like post(), for a caller whose executor is not that of the object it waits for.
  virtual void post_across() { post(); }
  /// Gives back what was granted, frees this and the handler, and calls nothing.
  virtual void destroy() noexcept = 0;

 protected:
  ~suspended() = default;

 private:
  friend class suspended_list;
  suspended* next_suspended_ = nullptr;
};

/// A FIFO of suspended callers.
class suspended_list {
 public:
  suspended_list() = default;
  suspended_list(suspended_list&& other) noexcept
      : first_{std::exchange(other.first_, nullptr)}, last_{std::exchange(other.last_, nullptr)} {}
  suspended_list& operator=(suspended_list&&) = delete;

  bool empty() const noexcept { return first_ == nullptr; }
  suspended* front() const noexcept { return first_; }
  void push(suspended& s) noexcept {
    s.next_suspended_ = nullptr;
    (last_ != nullptr ? last_->next_suspended_ : first_) = &s;
    last_ = &s;
  }
  void append(suspended_list&& other) noexcept {
    while (suspended* s = other.pop()) push(*s);
  }
  suspended* pop() noexcept {
    suspended* s = first_;
    if (s != nullptr && (first_ = s->next_suspended_) == nullptr) last_ = nullptr;
    return s;
  }

 private:
  suspended* first_ = nullptr;
  suspended* last_ = nullptr;
};

}  // namespace canigo::detail
