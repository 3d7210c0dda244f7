#include "canigo/detail/coro/group_child.hpp"

#include "canigo/detail/admission/awaited.hpp"
#include "canigo/detail/admission/permit_grant.hpp"
#include "canigo/error.hpp"

#include <mutex>

namespace canigo::detail {

group_child::~group_child() {
  // The chain of failed children is destroyed in a loop, because a recursion could be thousands of calls deep.
  auto next = std::move(next_failed_);
  while (next && next.use_count() == 1) next = std::move(next->next_failed_);
}

void group_child::rethrow() const {
  if (!has_ended()) throw_invalid("task_result.get", "a task that runs", "one that has ended");
  if (error_) std::rethrow_exception(error_);
}

task_group_core::running::running(std::shared_ptr<task_group_core> core, std::shared_ptr<group_child> c)
    : core_{std::move(core)}, child_{std::move(c)}, inside_{core_->occupy()} {
  core_->add(*child_);
}

task_group_core::running::~running() {
  if (!child_) return;
  core_->remove(*child_);
  child_->let_go_of_strand();
}

void task_group_core::running::operator()(const std::exception_ptr& error) noexcept {
  child_->let_go_of_strand();
  core_->ended(child_, error);
  // The last child resumes the joining coroutine, which may destroy everything that the children use. So the child's
  // own objects are destroyed before that.
  child_.reset();
  inside_.release();
}

task_group_core::task_group_core(const net::any_io_executor& executor)
    : idle_{open_idle(executor)},
      time_{time_source::of(executor)},
      retry_{time_, [](task_group_core& core) { core.retry(); }} {}

task_group_core::~task_group_core() { idle_->close(); }

permit task_group_core::occupy() { return occupy_place(*idle_).value(); }

void task_group_core::add(group_child& c) {
  bool cancelled = false;
  {
    const std::lock_guard lock{mutex_};
    cancelled = is_cancelled_;
    if (!cancelled) {
      c.next_ = first_;
      if (first_ != nullptr) first_->previous_ = &c;
      first_ = &c;
      c.is_listed_ = true;
    }
  }
  if (cancelled) c.end();
}

void task_group_core::unlist(group_child& c) noexcept {
  if (!c.is_listed_) return;
  if (c.next_ != nullptr) c.next_->previous_ = c.previous_;
  (c.previous_ != nullptr ? c.previous_->next_ : first_) = c.next_;
  c.previous_ = c.next_ = nullptr;
  c.is_listed_ = false;
}

void task_group_core::remove(group_child& c) noexcept {
  const std::lock_guard lock{mutex_};
  unlist(c);
}

void task_group_core::ended(const std::shared_ptr<group_child>& c, const std::exception_ptr& error) noexcept {
  bool ends_all = false;
  {
    const std::lock_guard lock{mutex_};
    unlist(*c);
    if (error) {
      c->error_ = error;
      (last_failed_ != nullptr ? last_failed_->next_failed_ : first_failed_) = c;
      last_failed_ = c.get();
      ends_all = first_ends_all_ && !is_cancelled_;
    }
  }
  c->has_ended_.store(true, std::memory_order_release);
  if (ends_all) cancel();
}

void task_group_core::cancel() noexcept {
  const context_visit visit = idle_->visit();
  for (;;) {
    std::shared_ptr<child> c;
    {
      const std::lock_guard lock{mutex_};
      is_cancelled_ = true;
      // a context that is being destroyed also destroys the remaining children, so they need no cancellation
      if (first_ == nullptr || !visit.lasts()) return;
      c = first_->shared_from_this();
    }
    try {
      c->end();
    } catch (...) {
      cancel_later();
      return;
    }
    const std::lock_guard lock{mutex_};
    unlist(static_cast<group_child&>(*c));
  }
}

/// Arranges another attempt to cancel the children, after a delay. Called if there was no memory to cancel all of them.
void task_group_core::cancel_later() noexcept {
  const std::lock_guard lock{mutex_};
  if (!retry_.is_set()) retry_.set(saturating_add(time_.now(), retry_after), *this);
}

void task_group_core::retry() noexcept {
  {
    const std::lock_guard lock{mutex_};
    retry_.was_called();
  }
  cancel();
}

void task_group_core::detach() noexcept {
  cancel();
  idle_->stop();
}

/// Waits for the children. A cancellation does not end the wait: it is passed on to the children, and the wait ends
/// when they have ended.
class task_group_core::joiner : public plain_waiter {
 public:
  explicit joiner(task_group_core& core, bool at_home) noexcept
      : plain_waiter{*core.idle_, at_home, false}, core_{&core} {}
  void request_cancel() noexcept { core_->cancel(); }

 private:
  task_group_core* core_;
};

net::awaitable<void> task_group_core::wait_until_idle() {
  if (idle_->try_enter(request{}) == outcome::granted) co_return;
  frame_room<start_parked<plain_waiter>::room_size> room;
  co_await park<std::error_code>([this, &room](auto&& handler) noexcept {
    const bool at_home = completes_at(idle_->executor(), net::get_associated_executor(handler, idle_->executor()));
    const request nothing;
    initiate_in<joiner>(room, std::forward<decltype(handler)>(handler), enter{*idle_, nothing}, *this, at_home);
  });
}

/// Waits until all children have ended, even if the calling coroutine was already cancelled. Returns the exception of
/// the wait itself; null if the wait succeeds, even if children have failed.
net::awaitable<std::exception_ptr> task_group_core::wait_uncancelled(std::shared_ptr<task_group_core> self,
                                                                     bool first_ends_all) {
  const net::cancellation_state state = co_await net::this_coro::cancellation_state;
  const bool throws = co_await net::this_coro::throw_if_cancelled();
  co_await net::this_coro::throw_if_cancelled(false);
  self->begin_wait(first_ends_all);
  if (state.cancelled() != net::cancellation_type::none) self->cancel();
  std::exception_ptr failure;
  try {
    co_await self->wait_until_idle();
  } catch (...) {
    failure = std::current_exception();
  }
  co_await net::this_coro::throw_if_cancelled(throws);
  co_return failure;
}

net::awaitable<void> task_group_core::join(std::shared_ptr<task_group_core> self) {
  auto failure = co_await wait_uncancelled(self, true);
  const auto failed = self->end_wait();
  if (failure) std::rethrow_exception(failure);
  if (failed) failed->rethrow();
}

net::awaitable<std::vector<std::exception_ptr>> task_group_core::wait_all(std::shared_ptr<task_group_core> self) {
  auto failure = co_await wait_uncancelled(self, false);
  auto failed = self->end_wait();
  if (failure) std::rethrow_exception(failure);
  std::vector<std::exception_ptr> errors;
  while (failed) {
    errors.push_back(failed->error_);
    failed = std::move(failed->next_failed_);
  }
  co_return errors;
}

void task_group_core::begin_wait(bool first_ends_all) noexcept {
  bool has_failed = false;
  {
    const std::lock_guard lock{mutex_};
    first_ends_all_ = first_ends_all;
    has_failed = first_failed_ != nullptr;
  }
  if (first_ends_all && has_failed) cancel();
}

/// Ends the wait of the group. Moves the list of failed children out of the group, and returns it.
std::shared_ptr<group_child> task_group_core::end_wait() noexcept {
  const std::lock_guard lock{mutex_};
  first_ends_all_ = false;
  is_cancelled_ = false;
  last_failed_ = nullptr;
  return std::move(first_failed_);
}

}  // namespace canigo::detail
