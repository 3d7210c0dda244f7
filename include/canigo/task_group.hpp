#pragma once

#include "canigo/detail/coro/group_child.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/co_spawn.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace canigo {

/// What a coroutine spawned into a task_group returns, once it has. A handle; copies name the same result.
template <class T>
class task_result {
 public:
  /// Whether it has ended, however.
  bool ready() const noexcept { return child_->has_ended(); }

  /// The value, or the exception that it ended with. Throws std::system_error, errc::invalid_argument, if it has not
  /// ended.
  ///
  /// After join() or wait_all() of its group; before, where ready() says so.
  std::add_lvalue_reference_t<T> get() const {
    child_->rethrow();
    if constexpr (!std::is_void_v<T>) return *child_->value;
  }

 private:
  friend class task_group;
  explicit task_result(std::shared_ptr<detail::group_child_of<T>> c) noexcept : child_{std::move(c)} {}
  std::shared_ptr<detail::group_child_of<T>> child_;
};

/// Coroutines that run at the same time and end together.
///
///     canigo::task_group group{io};
///     auto a = group.spawn(fetch("a"));
///     group.spawn(log_progress());
///     co_await group.join();
///     use(a.get());
///
/// Each child runs on a strand of its own (on the group's executor, if that is a strand), so cancelling is safe where
/// several threads run the context. Nothing is cancelled because a child failed until somebody is in join().
///
/// Threads: any, all members; one coroutine at a time waits in join() or wait_all().
/// Lifetime: destroying it cancels the children and waits for none of them: they go on until they have heeded that, so
/// they must own, or outlive, what they use. Who is in join() then gets errc::stopped. So join. Where the parent itself
/// is cancelled while it awaits something other than the group, its next co_await throws before a join could begin;
/// catch that, call co_await net::this_coro::reset_cancellation_state(), and join. The execution context may be
/// destroyed first.
class task_group {
 public:
  explicit task_group(const net::any_io_executor& executor);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit task_group(ExecutionContext& context) : task_group{net::any_io_executor{context.get_executor()}} {}
  ~task_group();
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  /// Starts `op`. In a cancelled group it ends with operation_aborted before it has begun. With any exception that it
  /// ends with once the group has cancelled it, whatever it makes of that, it has failed with operation_aborted.
  ///
  /// The result may be ignored. Throws std::bad_alloc, and has then started nothing.
  template <class T>
  task_result<T> spawn(net::awaitable<T> op) {
    auto c = std::make_shared<detail::group_child_of<T>>(core_->executor());
    detail::task_group_core::running running{core_, c};
    const net::any_io_executor strand = c->executor();  // which it lets go of when it ends, maybe before this returns
    net::co_spawn(strand, detail::group_child_main(c, std::move(op)),
                  net::bind_cancellation_slot(c->slot(), std::move(running)));
    return task_result<T>{std::move(c)};
  }

  /// Waits until all have ended; the first that fails cancels the others. Then throws what that one failed with.
  ///
  /// The group is empty afterwards, not cancelled any more, and can be used again.
  /// Errors: the first failure of a child, operation_aborted included; errc::stopped if the group is destroyed.
  /// Cancellation: terminal, partial, total. Cancels the children, and still waits for all of them.
  net::awaitable<void> join() { return detail::task_group_core::join(core_); }

  /// Waits until all have ended, whether they fail or not. The failures, in the order in which they happened; empty if
  /// none.
  ///
  /// Errors: errc::stopped if the group is destroyed. Cancellation and afterwards: as join().
  net::awaitable<std::vector<std::exception_ptr>> wait_all() { return detail::task_group_core::wait_all(core_); }

  /// Asks all children to end (terminal), and those still to be spawned before the next join() or wait_all() is
  /// through.
  void cancel() noexcept { core_->cancel(); }

  /// How many children run.
  std::size_t running() const noexcept { return core_->count(); }

 private:
  std::shared_ptr<detail::task_group_core> core_;
};

}  // namespace canigo
