#pragma once

#include "canigo/detail/base/atomic.hpp"

#include <cstdint>

namespace canigo::detail {

/// Counts the threads that use a context while another thread may begin to destroy it.
class context_visits {
 public:
  /// Called when the context is about to be destroyed. From then on no visit can begin. end() ends the visits of the
  /// calling thread, and waits until the visits of other threads have ended.
  void end() noexcept;

 private:
  friend class context_visit;
  static constexpr std::uint32_t over = std::uint32_t{1} << 31;
  atomic<std::uint32_t> count_{0};  // number of visits under way, and the flag `over`
};

/// While this object exists, the calling thread may use a context: it may post there, or destroy objects that refer to
/// it. The context is not destroyed meanwhile.
///
/// An engine posts after it has released its lock, and the context may be destroyed as soon as the lock is free. So a
/// visit begins under that lock, while the context certainly exists, and ends after the post.
class context_visit {
 public:
  /// A visit that does not protect any context.
  context_visit() noexcept = default;
  explicit context_visit(context_visits& v) noexcept;
  ~context_visit();
  context_visit(const context_visit&) = delete;
  context_visit& operator=(const context_visit&) = delete;

  /// Whether the context exists until this visit ends. False if the destruction of the context began before the visit,
  /// or if this thread itself has begun to destroy the context during the visit.
  bool lasts() const noexcept { return visits_ != nullptr; }

 private:
  friend class context_visits;
  context_visits* visits_ = nullptr;
  context_visit* outer_ = nullptr;
};

}  // namespace canigo::detail
