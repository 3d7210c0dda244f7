#pragma once

#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/pool/operation.hpp"
#include "canigo/detail/pool/pool_waiter.hpp"
#include "canigo/detail/pool/pool_waits.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/this_coro.hpp>

#include <cstddef>
#include <exception>
#include <type_traits>
#include <utility>

namespace canigo::detail {

template <class T>
struct result_signature_of {
  using type = void(std::exception_ptr, T);
};
template <>
struct result_signature_of<void> {
  using type = void(std::exception_ptr);
};
template <class T>
using result_signature = typename result_signature_of<T>::type;

bool cancel_task(pool_task& t) noexcept;
/// Throws errc::invalid_argument for a handle without a task.
[[noreturn]] void throw_no_task();

/// Whether a T can be passed to a handler even after an error: T is void, or its default and move constructors do not
/// throw.
template <class T>
inline constexpr bool is_easily_passed =
    std::is_void_v<T> || (std::is_nothrow_default_constructible_v<T> && std::is_nothrow_move_constructible_v<T>);

/// Waits for a task; with purpose::run it submits the task first. Asio recycles the memory of at most two nested
/// coroutines. So if is_easily_passed<T> is true, this function calls no further coroutine.
template <class T>
net::awaitable<T> await_task(pool_waiter::purpose purpose, task_ref<result_task<T>> t) {
  if constexpr (is_easily_passed<T>) {
    const net::any_io_executor executor = co_await net::this_coro::executor;
    frame_room<352> room;
    const auto start = [&](auto&& handler) noexcept {
      pool_task& wanted = *t;
      pool_core& core = wanted.home();
      const auto begin = [&](pool_waiter& w, bool has_memory) {
        w.comes_from_coroutine(executor);
        begin_task_wait(core, wanted, w, has_memory);
      };
      initiate_in<value_waiter<T>>(room, std::forward<decltype(handler)>(handler), begin, core, purpose,
                                   same_executor(executor_of(core), executor), task_ref<>{t.release()});
    };
    if constexpr (park_returns_a<T, std::exception_ptr>) {
      co_return co_await park_for<T, std::exception_ptr>(start);
    } else {
      co_await park_for<T, std::exception_ptr>(start);
      std::terminate();
    }
  } else {
    co_await wait_for_task(t->home(), purpose, *t);
    if (purpose == pool_waiter::purpose::run) co_return t->take();
    co_return t->share();
  }
}

/// Starts the wait for a task, for a caller with a completion token.
template <class T>
struct start_task_wait {
  const pool_core* core;
  pool_waiter::purpose purpose;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return executor_of(*core); }

  template <class Handler>
  void operator()(Handler&& handler, task_ref<result_task<T>> t) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    pool_task& wanted = *t;
    pool_core& own = wanted.home();
    const net::any_io_executor& home = executor_of(own);
    const bool at_home = handler_completes_at<decltype(h)>(home, net::get_associated_executor(h, home));
    const auto begin = [&](pool_waiter& w, bool has_memory) { begin_task_wait(own, wanted, w, has_memory); };
    initiate<value_waiter<T>>(h, home, begin, own, purpose, at_home, task_ref<>{t.release()});
  }
};

template <class T, class Token>
auto async_result_of(task_ref<result_task<T>> t, Token&& token) {
  const pool_core* const core = &t->home();
  return net::async_initiate<Token, result_signature<T>>(start_task_wait<T>{core, pool_waiter::purpose::result}, token,
                                                         std::move(t));
}

}  // namespace canigo::detail
