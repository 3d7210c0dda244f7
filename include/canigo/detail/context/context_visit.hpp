#pragma once

#include "canigo/detail/base/atomic.hpp"

#include <cstdint>

namespace canigo::detail {

/// Counts the threads that are using a context although another one may be about to destroy it.
class context_visits {
 public:
  /// The context is about to go. No visit begins any more. This ends the visits of the calling thread, and waits for
  /// those of other threads.
  void end() noexcept;

 private:
  friend class context_visit;
  static constexpr std::uint32_t over = std::uint32_t{1} << 31;
  atomic<std::uint32_t> count_{0};  // under way, and `over`
};

/// The calling thread uses a context: it posts there, or destroys what reaches for it. The context stays meanwhile.
///
/// An engine posts after it has released its lock, and the context may go as soon as the lock is free. So a visit
/// begins under that lock, while the engine knows that its context is there, and ends after the post.
class context_visit {
 public:
  /// One that does not last.
  context_visit() noexcept = default;
  explicit context_visit(context_visits& v) noexcept;
  ~context_visit();
  context_visit(const context_visit&) = delete;
  context_visit& operator=(const context_visit&) = delete;

  /// Whether the context stays until this ends. False if the context was already about to go, and also from the moment
  /// when this thread itself destroys it.
  bool lasts() const noexcept { return visits_ != nullptr; }

 private:
  friend class context_visits;
  context_visits* visits_ = nullptr;
  context_visit* outer_ = nullptr;
};

}  // namespace canigo::detail
