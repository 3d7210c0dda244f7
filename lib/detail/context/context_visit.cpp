#include "canigo/detail/context/context_visit.hpp"

#include "canigo/detail/base/this_thread.hpp"

#include <atomic>
#include <utility>

namespace canigo::detail {

context_visit::context_visit(context_visits& v) noexcept {
  if ((v.count_.fetch_add(1, std::memory_order_acquire) & context_visits::over) != 0) [[unlikely]] {
    v.count_.fetch_sub(1, std::memory_order_release);
    return;
  }
  visits_ = &v;
  outer_ = std::exchange(innermost_visit(), this);
}

context_visit::~context_visit() {
  if (visits_ == nullptr) return;
  innermost_visit() = outer_;
  // The decrement is the last access to *visits_, because the context, and *visits_ with it, may be destroyed
  // afterwards.
  visits_->count_.fetch_sub(1, std::memory_order_release);
}

void context_visits::end() noexcept {
  // A context may be shut down twice: by the destructor of a derived class, and then by the destructor of
  // net::execution_context. The second shutdown has no effect.
  if ((count_.load(std::memory_order_relaxed) & over) != 0) return;
  count_.fetch_add(over, std::memory_order_relaxed);
  // An executor may run a posted function inside net::post(), and that function may destroy the context. The thread
  // that called net::post() is then still inside a visit, in which it uses the context. A wait for the visits of this
  // same thread would never end, so these visits end here.
  std::uint32_t own = 0;
  context_visit** at = &innermost_visit();
  while (context_visit* v = *at) {
    if (v->visits_ == this) {
      v->visits_ = nullptr;
      *at = v->outer_;
      ++own;
    } else {
      at = &v->outer_;
    }
  }
  count_.fetch_sub(own, std::memory_order_relaxed);
  wait_until(
      [](const void* v) {
        return static_cast<const context_visits*>(v)->count_.load(std::memory_order_acquire) == over;
      },
      this);
}

}  // namespace canigo::detail
