#pragma once

#include "canigo/detail/pool/pool_task.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"

#include <asio/awaitable.hpp>

#include <cstdlib>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace canigo {

/// The resource of the worker that runs the operation.
template <class R>
R& resource_of(task_context& c) noexcept {
  return *static_cast<R*>(c.resource());
}

namespace detail {

/// Calls an operation with those of the arguments (R&, task_context&) that it takes. R is void for a pool without
/// resources.
template <class R, class F>
decltype(auto) invoke_operation(F& f, task_context& c) {
  if constexpr (!std::is_void_v<R>) {
    if constexpr (std::is_invocable_v<F&, R&, task_context&>) {
      return f(resource_of<R>(c), c);
    } else {
      return f(resource_of<R>(c));
    }
  } else if constexpr (std::is_invocable_v<F&, task_context&>) {
    return f(c);
  } else {
    return f();
  }
}

template <class T>
struct operation_value {
  using type = std::remove_cvref_t<T>;
  static constexpr bool is_long = false;
};
template <class T>
struct operation_value<net::awaitable<T>> {
  using type = T;
  static constexpr bool is_long = true;
};

/// A callable that a pool can run.
template <class F, class R>
concept operation = std::is_move_constructible_v<F> && std::is_object_v<F> && [] {
  if constexpr (std::is_void_v<R>) {
    return std::is_invocable_v<F&> || std::is_invocable_v<F&, task_context&>;
  } else {
    return std::is_invocable_v<F&, R&> || std::is_invocable_v<F&, R&, task_context&>;
  }
}();

template <class R, class F>
  requires operation<F, R>
using operation_traits =
    operation_value<decltype(invoke_operation<R>(std::declval<F&>(), std::declval<task_context&>()))>;

template <class R, class F>
using operation_result = typename operation_traits<R, std::decay_t<F>>::type;

/// Reports with a static_assert why `F` is not an operation.
template <class F, class R>
constexpr void refuse_operation() noexcept {
  if constexpr (operation_value<F>::is_long) {
    static_assert(
        !operation_value<F>::is_long,
        "a pool runs a function, when a worker is free: pool.run([&] { return call(); }), and not run(call())");
  } else if constexpr (std::is_void_v<R>) {
    static_assert(operation<F, R>, "an operation of a strand_pool takes nothing or a canigo::task_context&");
  } else {
    static_assert(operation<F, R>,
                  "an operation of a resource_pool takes the resource by reference, and then maybe a "
                  "canigo::task_context&: [](connection& c) { … }");
  }
}

/// A task with storage for its result.
template <class T>
class result_task : public pool_task {
 public:
  using pool_task::pool_task;
  /// Returns the result, or throws. May be called only once.
  T take() {
    throw_if_failed();
    return std::move(*value_);
  }
  /// Like take(), but copies the result, so it may be called repeatedly. T must be copyable.
  T share() {
    throw_if_failed();
    if constexpr (std::is_copy_constructible_v<T>) {
      return *value_;
    } else {
      return std::move(*value_);
    }
  }

 protected:
  std::optional<T> value_;
};

template <>
class result_task<void> : public pool_task {
 public:
  using pool_task::pool_task;
};

/// A task with its callable F. R is the resource type that F needs, or void.
template <class F, class R>
class task_of final : public result_task<typename operation_traits<R, F>::type> {
  using traits = operation_traits<R, F>;
  using value = typename traits::type;

 public:
  template <class G>
  explicit task_of(G&& g) : result_task<value>(traits::is_long), callable_(std::in_place, std::forward<G>(g)) {}

  /// Moves the callable back to the object that it was moved from.
  void give_back(F& origin) noexcept {
    if constexpr (std::is_nothrow_move_assignable_v<F>) {
      origin = std::move(*callable_);
    } else if constexpr (std::is_nothrow_move_constructible_v<F>) {
      std::destroy_at(&origin);  // the callable may be a lambda, which can't be assigned
      std::construct_at(&origin, std::move(*callable_));
    }
  }

 private:
  void call(task_context& c) override {
    if constexpr (traits::is_long) {
      std::abort();
    } else if constexpr (std::is_void_v<value>) {
      invoke_operation<R>(*callable_, c);
    } else {
      this->value_.emplace(invoke_operation<R>(*callable_, c));
    }
    if constexpr (!std::is_trivially_destructible_v<F>) drop_callable();
  }

  net::awaitable<void> start(task_context& c) override {
    if constexpr (!traits::is_long) {
      std::abort();
    } else if constexpr (std::is_void_v<value>) {
      return invoke_operation<R>(*callable_, c);
    } else {
      return start_and_keep(c);
    }
  }

  net::awaitable<void> start_and_keep(task_context& c) {
    if constexpr (traits::is_long && !std::is_void_v<value>) {
      value v = co_await invoke_operation<R>(*callable_, c);
      this->value_.emplace(std::move(v));
    }
    co_return;
  }

  void drop_callable() noexcept override { callable_.reset(); }

  std::optional<F> callable_;
};

}  // namespace detail
}  // namespace canigo
