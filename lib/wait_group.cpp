#include "canigo/wait_group.hpp"

#include <cassert>

namespace canigo {

wait_group::wait_group(const net::any_io_executor& executor) : admission_{detail::open_idle(executor)} {}

wait_group::~wait_group() {
  // Each unfinished piece of work occupies a slot, which would keep *admission_ alive for ever. So these slots are
  // released. stop() first ends the waits with errc::stopped. Without stop(), the release would end the waits as if the
  // work were done.
  admission_->stop();
  admission_->release(admission_->occupied());
  admission_->close();
}

void wait_group::add(std::uint64_t n) noexcept { admission_->occupy(n); }

void wait_group::done() noexcept {
  assert(count() > 0 && "wait_group::done: more often than add() has counted");
  admission_->release(1);
}

std::uint64_t wait_group::count() const { return admission_->occupied(); }

net::awaitable<void> wait_group::wait() { return detail::wait_for<detail::plain_waiter>(admission_); }

}  // namespace canigo
