#pragma once

#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/pool/operation.hpp"
#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_waiter.hpp"
#include "canigo/detail/pool/pool_waits.hpp"
#include "canigo/net.hpp"
#include "canigo/task_options.hpp"

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
/// Throws errc::invalid_argument for a handle on no task.
[[noreturn]] void throw_no_task();

/// Whether a result can come back as the argument of a handler: in the place of an error there is one, too.
template <class T>
inline constexpr bool is_easily_passed =
    std::is_void_v<T> || (std::is_nothrow_default_constructible_v<T> && std::is_nothrow_move_constructible_v<T>);

/// Waits for a task; with purpose run, hands it over first. One coroutine where that can be, because Asio recycles the
/// memory of no more than two that wait for each other.
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
                                   same_executor(core.executor(), executor), task_ref<>{t.release()});
    };
    if constexpr (park_returns_a<T>) {
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

/// Waits for a task on behalf of a handler.
template <class T>
struct start_task_wait {
  pool_waiter::purpose purpose;

  template <class Handler>
  void operator()(Handler&& handler, task_ref<result_task<T>> t) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    pool_task& wanted = *t;
    pool_core& core = wanted.home();
    const bool at_home = completes_at<decltype(h)>(core.executor(), net::get_associated_executor(h, core.executor()));
    const auto begin = [&](pool_waiter& w, bool has_memory) { begin_task_wait(core, wanted, w, has_memory); };
    initiate<value_waiter<T>>(h, core.executor(), begin, core, purpose, at_home, task_ref<>{t.release()});
  }
};

template <class T, class Token>
auto async_result_of(task_ref<result_task<T>> t, Token&& token) {
  return net::async_initiate<Token, result_signature<T>>(start_task_wait<T>{pool_waiter::purpose::result}, token,
                                                         std::move(t));
}

/// What `run` returns under g++ 12 for a callable with captures that need a destructor.
///
/// That compiler destroys the captures of a lambda twice when it is written inside a co_await expression (GCC bug
/// 100611 and its kin, fixed in 13). So this can't be awaited directly, only once it is a net::awaitable with a name:
///
///     net::awaitable<int> op = pool.run([p = std::move(p)] { return *p; });
///     int n = co_await std::move(op);
///
/// or through a task: `auto t = pool.submit([p = std::move(p)] { … }); int n = co_await t.result();`
template <class T>
class [[nodiscard]] give_this_a_name_before_co_await {
 public:
  explicit give_this_a_name_before_co_await(net::awaitable<T> a) noexcept : awaitable_{std::move(a)} {}
  operator net::awaitable<T>() && { return std::move(awaitable_); }  // NOLINT: the conversion is the point
  net::awaitable<T> awaitable() && { return std::move(awaitable_); }

  /// Never called: what co_await takes besides awaitables are functions like this one. See operator co_await below.
  net::detail::awaitable_thread<net::any_io_executor>* operator()(
      net::detail::awaitable_frame_base<net::any_io_executor>*) const noexcept;

 private:
  net::awaitable<T> awaitable_;
};

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
template <class F, class T>
using run_result =
    std::conditional_t<std::is_trivially_destructible_v<std::remove_cvref_t<F>> || std::is_lvalue_reference_v<F>,
                       net::awaitable<T>, give_this_a_name_before_co_await<T>>;
#else
template <class F, class T>
using run_result = net::awaitable<T>;
#endif

}  // namespace canigo::detail

namespace asio::detail {

/// Says what is wrong, and what to do.
template <class Transformed>
  requires requires(Transformed& t) {
    []<class T>(const canigo::detail::give_this_a_name_before_co_await<T>&) {}(t.function_);
  }
auto operator co_await(Transformed&& t) {
  static_assert(
      sizeof(Transformed) == 0,
      "This compiler destroys the captures of a lambda that is written inside a co_await expression twice. "
      "Give the operation a name first: net::awaitable<T> op = pool.run([...] {...}); co_await std::move(op); "
      "or the lambda: auto f = [...] {...}; co_await pool.run(f); or wait for a task: "
      "auto t = pool.submit([...] {...}); co_await t.result();");
  return t.this_->await_transform(std::move(t.function_).awaitable());
}

}  // namespace asio::detail
