#pragma once

#include "canigo/detail/context/asio_private.hpp"
#include "canigo/net.hpp"

#include <asio/awaitable.hpp>

#include <type_traits>
#include <utility>

namespace canigo::detail {

/// The result of a function that takes a callable, under g++ 12, if the callable's captures need a destructor.
///
/// That compiler destroys the captures of a lambda twice when it is written inside a co_await expression (GCC bug
/// 100611 and others, fixed in 13). So this can't be awaited directly, only once it is a net::awaitable with a name:
///
///     net::awaitable<int> op = pool.run([p = std::move(p)] { return *p; });
///     int n = co_await std::move(op);
template <class T>
class [[nodiscard]] give_this_a_name_before_co_await {
 public:
  explicit give_this_a_name_before_co_await(net::awaitable<T> a) noexcept : awaitable_{std::move(a)} {}
  operator net::awaitable<T>() && { return std::move(awaitable_); }  // NOLINT: the conversion is the point
  net::awaitable<T> awaitable() && { return std::move(awaitable_); }

  /// Never called. Besides awaitables, co_await takes functions like this one. See operator co_await below.
  asio_private::coroutine_thread* operator()(asio_private::coroutine_frame*) const noexcept;

 private:
  net::awaitable<T> awaitable_;
};

/// The result of a function that takes an `F&&` and has a result of type T.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
template <class F, class T>
using named_first =
    std::conditional_t<std::is_trivially_destructible_v<std::remove_cvref_t<F>> || std::is_lvalue_reference_v<F>,
                       net::awaitable<T>, give_this_a_name_before_co_await<T>>;
#else
template <class F, class T>
using named_first = net::awaitable<T>;
#endif

}  // namespace canigo::detail

namespace asio::detail {

/// Says what is wrong, and what to do.
template <class Transformed>
  requires requires(Transformed& t) {
    []<class T>(const canigo::detail::give_this_a_name_before_co_await<T>&) {}(t.function_);
  }
auto operator co_await(Transformed&& t) {
  static_assert(sizeof(Transformed) == 0,
                "This compiler destroys the captures of a lambda that is written inside a co_await expression twice. "
                "Give the lambda a name first: auto f = [...] {...}; co_await pool.run(f); "
                "or the operation: asio::awaitable<T> op = pool.run([...] {...}); co_await std::move(op); "
                "or wait for a task: auto t = pool.submit([...] {...}); co_await t.result();");
  return t.this_->await_transform(std::move(t.function_).awaitable());
}

}  // namespace asio::detail
