#pragma once

#include "canigo/detail/context/suspend.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/associated_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/post.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// Lets a made operation begin. It may be gone when this returns.
template <class Operation>
void begin(Operation& op) noexcept {
  try {
    op.allow_cancel();
  } catch (...) {
    op.fail(errc::not_enough_memory);
  }
  start(op);
}

/// Initiates an operation for a caller that came with a completion token.
///
/// `Home` is the engine that carries the operation out. The operation keeps it alive. The namespace of `Home` has a
/// function `executor_of(const Home&)`. `Base` is that of a suspended_op. Its constructor takes a pointer to the home
/// and the arguments. It also has:
///
///     start(Base&) noexcept          a function beside it: from here on the operation ends by a post
///     fail(errc) noexcept            ends the operation before it is started
///     static results failed(errc)    the results if there is no memory for the operation
template <class Base, class Home>
struct initiation {
  std::shared_ptr<Home> home;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return executor_of(*home); }

  template <class Handler, class... Args>
  void operator()(Handler&& handler, Args&&... args) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    try {
      begin(*make_suspended<Base>(h, executor_of(*home), home, std::forward<Args>(args)...));
    } catch (const std::bad_alloc&) {
      // Under co_await a throw from here would be std::terminate.
      net::post(net::get_associated_executor(h, executor_of(*home)),
                [h = std::move(h)]() mutable { std::apply(std::move(h), Base::failed(errc::not_enough_memory)); });
    }
  }
};

/// The type of a co_await expression, from the arguments of the handler.
template <class Results>
struct awaited;
template <>
struct awaited<std::tuple<std::error_code>> {
  using type = void;
};
template <class T>
struct awaited<std::tuple<std::error_code, T>> {
  using type = T;
};

/// Initiates an operation for a coroutine. The operation lies in the coroutine's frame, so nothing else is allocated.
/// `Base` and `Home` are those of an initiation.
template <class Base, class Home, class... Args>
auto await_operation(std::shared_ptr<Home> home, Args... args)
    -> net::awaitable<typename awaited<typename Base::results>::type> {
  using value = typename awaited<typename Base::results>::type;
  constexpr std::size_t handler_size = 16;
  frame_room<sizeof(Base) + handler_size> room;
  const auto start = [&](auto&& handler) noexcept {
    std::decay_t<decltype(handler)> h(std::forward<decltype(handler)>(handler));
    begin(*make_suspended_in<Base>(room, h, std::move(home), args...));
  };
  if constexpr (std::is_void_v<value>) {
    co_await park<std::error_code>(start);
  } else if constexpr (park_returns) {
    co_return co_await park<std::error_code, value>(start);
  } else {
    co_await park<std::error_code, value>(start);
    std::terminate();
  }
}

}  // namespace canigo::detail
