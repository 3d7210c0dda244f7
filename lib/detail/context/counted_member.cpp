#include "canigo/detail/context/counted_member.hpp"

#include <mutex>

namespace canigo::detail {

// The time source is made before the context_service. A context shuts its services down in reverse order, so the time
// source is shut down after the waits of the members have ended.
counted_member::counted_member(const net::any_io_executor& executor)
    : time_{&time_source::of(executor)}, is_virtual_{time_->is_virtual_}, context_{&context_service::of(executor)} {}

context_visit counted_member::visit() noexcept {
  const std::lock_guard lock{mutex_};
  if (context_gone_) return context_visit{};
  return context_visit{visits()};
}

void counted_member::unreferenced() noexcept {
  {
    const std::lock_guard lock{mutex_};
    if (!context_gone_) {
      if (!may_go()) return;
      // The member must release its references to the context before remove(). Right after remove() the context may be
      // destroyed. A reference that is left, for example a strand, would then use the destroyed context in the member's
      // destructor. Until remove(), the context's shutdown waits for this lock.
      let_go_of_context();
      is_left_to_context_ = !context_->remove(*this);
      if (is_left_to_context_) return;
    }
  }
  delete this;
}

bool counted_member::add_ref_if_there_is_one() noexcept {
  std::size_t references = references_.load(std::memory_order_relaxed);
  while (references > 0) {
    if (references_.compare_exchange_weak(references, references + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

void counted_member::context_shutdown() noexcept {
  if (add_ref_if_there_is_one()) {
    end_with_context();
    // If a thread has called leave_to_context(), that call took a reference. No thread can call leave_to_context()
    // after end_with_context(), so the reference is released here.
    if (has_left_something_) release_ref();
    release_ref();
    return;
  }
  // The member is deleted by this function or by unreferenced(), whichever is called second.
  bool is_mine = false;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = true;
    let_go_of_context();
    is_mine = is_left_to_context_;
  }
  if (is_mine) delete this;
}

}  // namespace canigo::detail
