#pragma once

#include "canigo/net.hpp"

#include <asio/awaitable.hpp>

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

namespace canigo::detail {

template <class Signature>
class async_function;

/// A std::function that returns an awaitable. It is made from a callable that returns an awaitable or a plain T.
template <class T, class... Args>
class async_function<T(Args...)> {
 public:
  async_function() = default;

  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, async_function> && std::is_invocable_v<std::decay_t<F>&, Args...>)
  async_function(F&& f) : function_{wrap(std::forward<F>(f))} {}

  explicit operator bool() const noexcept { return static_cast<bool>(function_); }
  net::awaitable<T> operator()(Args... args) const { return function_(std::forward<Args>(args)...); }

 private:
  template <class F>
  static auto wrap(F&& f) {
    using result = std::invoke_result_t<std::decay_t<F>&, Args...>;
    if constexpr (std::same_as<result, net::awaitable<T>>) {
      return std::forward<F>(f);
    } else {
      // The coroutine call() refers to `g`. So this lambda must not be moved or destroyed before the coroutine has
      // ended.
      return [g = std::forward<F>(f)](Args... args) mutable {
        return call<std::decay_t<F>>(g, std::forward<Args>(args)...);
      };
    }
  }
  template <class F>
  static net::awaitable<T> call(F& f, Args... args) {
    co_return f(std::forward<Args>(args)...);
  }

  std::function<net::awaitable<T>(Args...)> function_;
};

}  // namespace canigo::detail
