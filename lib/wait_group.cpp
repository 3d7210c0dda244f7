#include "canigo/wait_group.hpp"

#include <cassert>

namespace canigo {

wait_group::wait_group(const net::any_io_executor& executor) : admission_{detail::open_idle(executor)} {}

wait_group::~wait_group() {
  // Unfinished work must not keep the engine alive. stop() comes first, so that waiters do not mistake the release for
  // the end of the work.
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
