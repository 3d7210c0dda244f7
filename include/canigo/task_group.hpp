#pragma once

#include "canigo/detail/coro/abandonable.hpp"
#include "canigo/detail/coro/group_child.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/co_spawn.hpp>
#include <asio/this_coro.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace canigo {

class task_group;

namespace detail {
class hedge_race;
}  // namespace detail

/// The result of a coroutine that was spawned into a task_group. It is a handle; copies refer to the same result.
template <class T>
class task_result {
 public:
  /// Whether the coroutine has ended, with a value or with an exception.
  bool ready() const noexcept { return child_->has_ended(); }

  /// Returns the value of the coroutine, or throws its exception. Throws std::system_error (errc::invalid_argument) if
  /// the coroutine has not ended.
  ///
  /// Call it after join() or wait_all() of the group, or earlier if ready() is true.
  std::add_lvalue_reference_t<T> get() const {
    child_->rethrow();
    if constexpr (!std::is_void_v<T>) return *child_->value;
  }

 private:
  friend class task_group;
  explicit task_result(std::shared_ptr<detail::group_child_of<T>> c) noexcept : child_{std::move(c)} {}
  std::shared_ptr<detail::group_child_of<T>> child_;
};

/// The task group in which an operation continues after its caller stopped waiting. See the with_deadline() that takes
/// an abandon_to.
struct abandon_to {
  task_group& group;
};

/// Coroutines that run at the same time and end together.
///
///     canigo::task_group group{io};
///     auto a = group.spawn(fetch("a"));
///     group.spawn(log_progress());
///     co_await group.join();
///     use(a.get());
///
/// Each child runs on its own strand, or on the group's executor if that is a strand. So cancellation is safe when
/// several threads run the context. The failure of a child cancels the other children only once join() is called.
///
/// Threads: any thread may call any member; only one coroutine at a time may wait in join() or wait_all().
/// Lifetime: the destructor cancels the children and does not wait for them. They run until they have reacted to the
/// cancellation. So the children must own the objects that they use, or these objects must outlive the children. A
/// waiting join() ends with errc::stopped. So call join() before the destructor. The execution context may be destroyed
/// before the group.
///
/// The coroutine that calls join() may be cancelled while it awaits something other than the group. Then its next
/// co_await throws, even the one for join(). In that case catch the exception, call co_await
/// net::this_coro::reset_cancellation_state(), and then call join().
class task_group {
 public:
  explicit task_group(const net::any_io_executor& executor);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit task_group(ExecutionContext& context) : task_group{net::any_io_executor{context.get_executor()}} {}
  ~task_group();
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  /// Starts `op`. In a cancelled group, `op` ends with operation_aborted before it begins. If a child that the group
  /// has cancelled throws any exception, the group records operation_aborted as the failure of that child.
  ///
  /// The returned handle may be ignored. If spawn() throws std::bad_alloc, it has started nothing.
  template <class T>
  task_result<T> spawn(net::awaitable<T> op) {
    return task_result<T>{start(std::move(op))};
  }

  /// Waits until all children have ended. The first child that fails cancels the others; join() then throws that
  /// failure.
  ///
  /// Afterwards the group is empty, no longer cancelled, and can be used again.
  /// Errors: the first failure of a child, operation_aborted included; errc::stopped if the group is destroyed.
  /// Cancellation: terminal, partial, total. Cancels the children, and still waits for all of them.
  [[nodiscard("co_await it")]] net::awaitable<void> join() { return detail::task_group_core::join(core_); }

  /// Waits until all children have ended; a failure cancels no child. Returns the failures, in the order in which they
  /// happened.
  ///
  /// Afterwards the group is empty, no longer cancelled, and can be used again.
  /// Errors: errc::stopped if the group is destroyed. Cancellation: as for join().
  [[nodiscard("co_await it")]] net::awaitable<std::vector<std::exception_ptr>> wait_all() {
    return detail::task_group_core::wait_all(core_);
  }

  /// Cancels all children (terminal). Also cancels children that are spawned later, until the next join() or wait_all()
  /// has finished.
  void cancel() noexcept { core_->cancel(); }

  /// The number of running children.
  std::size_t running() const noexcept { return core_->count(); }

 private:
  friend class detail::hedge_race;
  template <class T>
  friend net::awaitable<T> with_deadline(net::awaitable<T> op, time_point t, abandon_to rest);

  template <class T>
  std::shared_ptr<detail::group_child_of<T>> start(net::awaitable<T> op) {
    auto c = std::make_shared<detail::group_child_of<T>>(core_->executor());
    detail::task_group_core::running running{core_, c};
    // a copy, because the child drops its strand when it ends, perhaps before start() returns
    const net::any_io_executor strand = c->executor();
    net::co_spawn(strand, detail::group_child_main(c, std::move(op)),
                  net::bind_cancellation_slot(c->slot(), std::move(running)));
    return c;
  }
  /// Returns a permit that counts as a running child: join() and wait_all() wait until it is released.
  permit hold() { return core_->occupy(); }

  std::shared_ptr<detail::task_group_core> core_;
};

/// Runs `op` until `t` at the latest, and then returns immediately, even if `op` does not react to its cancellation:
///
///     auto found = co_await with_timeout(look_up(host), 2s, canigo::abandon_to{group});  // an awaitable
///
/// `op` is a child of the group from its start. At `t` it is cancelled (terminal) and left to the group. A later result
/// or failure is dropped. The group's join() and wait_all() wait until `op` has really ended, and never throw its
/// failure. The group's destructor and cancel() cancel `op` without waiting. `op` must own the objects that it uses, or
/// these objects must outlive `op`.
///
/// A result that comes in time is returned, even if `t` passes at that moment.
/// Errors: errc::timed_out; all errors of `op`; operation_aborted if `op` ends because the group is cancelled or
/// destroyed. If `op` ignores that cancellation, its caller waits until `t`.
/// Cancellation: terminal, partial, total. Cancels `op` and leaves it to the group, as at `t`.
/// Threads: `op` runs on a strand of the group's executor, or on that executor if it is a strand.
/// Allocates: the strand, a block for the result, and what co_spawn allocates.
template <class T>
[[nodiscard("co_await it")]] net::awaitable<T> with_deadline(net::awaitable<T> op, time_point t, abandon_to rest) {
  const auto end = std::make_shared<detail::abandonable<T>>(co_await net::this_coro::executor);
  detail::abandonable_end::running running{end};
  const auto child = rest.group.start(detail::abandonable<T>::run(end, std::move(running), std::move(op)));
  const std::error_code late = co_await end->wait_until(t);
  if (!end->has_ended()) {
    child->end();
    throw std::system_error{late};
  }
  co_return end->take(late, child->was_ended());
}

/// Like the with_deadline() that takes an abandon_to, but the deadline is `d` after the start of this awaitable.
template <class T>
[[nodiscard("co_await it")]] net::awaitable<T> with_timeout(net::awaitable<T> op, duration d, abandon_to rest) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  co_return co_await with_deadline(std::move(op), saturating_add(detail::now_on(executor), d), rest);
}

}  // namespace canigo
