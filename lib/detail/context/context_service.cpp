#include "canigo/detail/context/context_service.hpp"

#include "canigo/detail/context/asio_private.hpp"
#include "canigo/time_source.hpp"

#include <mutex>

namespace canigo::detail {

net::execution_context::id context_service::id;

// A context shuts its services down in reverse order. Members (the objects that are registered here) use the time
// source and strands, so the services of both are made first. The strand service is made directly, and not by making a
// strand: if there is no memory for a strand, Asio's destructor uses an uninitialized member.
context_service::context_service(net::execution_context& context) : service{context} {
  net::use_service<time_source>(context);
  net::use_service<asio_private::strand_service>(context);
}

context_service& context_service::of(const net::any_io_executor& executor) {
  return net::use_service<context_service>(net::query(executor, net::execution::context));
}

void context_service::add(context_member& member) noexcept {
  const std::lock_guard lock{mutex_};
  member.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &member;
  first_ = &member;
  member.is_known_ = true;
}

bool context_service::remove(context_member& member) noexcept {
  const std::lock_guard lock{mutex_};
  if (!member.is_known_) return false;
  unlink(member);
  return true;
}

void context_service::unlink(context_member& member) noexcept {
  if (member.next_ != nullptr) member.next_->previous_ = member.previous_;
  if (member.previous_ != nullptr) member.previous_->next_ = member.next_;
  if (first_ == &member) first_ = member.next_;
  member.is_known_ = false;
}

void context_service::shutdown() {
  visits_.end();
  // Ends one member at a time, because ending a member destroys its waiters, and this may destroy other members.
  for (;;) {
    context_member* member = nullptr;
    {
      const std::lock_guard lock{mutex_};
      member = first_;
      if (member == nullptr) return;
      unlink(*member);
    }
    member->context_shutdown();
  }
}

}  // namespace canigo::detail
