#include "canigo/detail/context/counted_member.hpp"

#include <mutex>

namespace canigo::detail {

// The time source is a service that was made first. A context shuts its services down in reverse order, so the time
// source outlives the waits of members.
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
      // The member lets go of the context before remove(). The context may be destroyed right after remove(), and the
      // member's destructor would still use it, for example through a strand. Until remove(), the context waits for
      // this lock.
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
    // From now on no thread leaves any work to the context, so the reference for such work is released here.
    if (has_left_something_) release_ref();
    release_ref();
    return;
  }
  // Of this function and unreferenced(), the one that is called second deletes the member.
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
