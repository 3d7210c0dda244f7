#include "canigo/detail/context/context_service.hpp"

#include <asio/strand.hpp>

#include <mutex>

namespace canigo::detail {

namespace {

/// Enough of an executor for a strand.
struct executor_of {
  net::execution_context* context;
  net::execution_context& query(net::execution::context_t) const noexcept { return *context; }
  template <class Function>
  void execute(Function&&) const {}
  bool operator==(const executor_of&) const noexcept = default;
};

}  // namespace

net::execution_context::id context_service::id;

// A context shuts its services down in the reverse order. What members post to strands may not come after those have
// been shut down, so there must be strands first.
context_service::context_service(net::execution_context& context) : service{context} {
  const net::strand<executor_of> first{executor_of{&context}};
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
  // One at a time: destroying what waits for one member may destroy others.
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
