#include "shared_member.hpp"

#include <asio/execution_context.hpp>

#include <mutex>

namespace canigo::redis::detail {

using canigo::detail::context_service;

shared_member::shared_member(const net::any_io_executor& executor)
    : time_{&time_source::of(executor)},
      context_{&net::use_service<context_service>(net::query(executor, net::execution::context))} {}

void shared_member::join() noexcept {
  is_known_ = true;
  context_->add(*this);
}

void shared_member::unreferenced() noexcept {
  {
    const std::lock_guard lock{mutex_};
    if (!context_gone_ && is_known_) {
      // The context may be gone right after remove(), and until then it waits for the lock.
      let_go_of_context();
      is_left_to_context_ = !context_->remove(*this);
      if (is_left_to_context_) return;
    }
  }
  delete this;
}

void shared_member::context_shutdown() noexcept {
  if (const auto keep = reference()) return end_with_context();
  // Whoever of this and unreferenced() comes second deletes.
  bool is_mine = false;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = true;
    let_go_of_context();
    is_mine = is_left_to_context_;
  }
  if (is_mine) delete this;
}

}  // namespace canigo::redis::detail
