#pragma once

#include "canigo/detail/context/asio_private.hpp"
#include "canigo/net.hpp"

#include <asio/awaitable.hpp>

#include <type_traits>
#include <utility>

namespace canigo::detail {

/// Under g++ 12, the return type of a function to which a caller passes a temporary callable with non-trivial captures.
///
/// That compiler destroys the captures of a lambda twice if the lambda is written inside a co_await expression (GCC bug
/// 100611 and others, fixed in 13). So this result can't be awaited directly. It must first be converted to a named
/// net::awaitable:
///
///     net::awaitable<int> op = pool.run([p = std::move(p)] { return *p; });
///     int n = co_await std::move(op);
template <class T>
class [[nodiscard]] give_this_a_name_before_co_await {
 public:
  explicit give_this_a_name_before_co_await(net::awaitable<T> a) noexcept : awaitable_{std::move(a)} {}
  operator net::awaitable<T>() && { return std::move(awaitable_); }  // NOLINT: an implicit conversion is intended
  net::awaitable<T> awaitable() && { return std::move(awaitable_); }

  /// Never called. With this call operator, Asio's co_await accepts the object. So the compiler chooses the operator
  /// co_await below, which rejects the expression with a helpful message.
  asio_private::coroutine_thread* operator()(asio_private::coroutine_frame*) const noexcept;

 private:
  net::awaitable<T> awaitable_;
};

/// The return type of a function that takes a callable as `F&&` and returns an awaitable of T. Under g++ 12, if the
/// callable is a temporary with a non-trivial destructor, the type is give_this_a_name_before_co_await<T>.
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

/// Rejects a co_await of a give_this_a_name_before_co_await, by a static_assert. Its message shows the code to write
/// instead.
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
