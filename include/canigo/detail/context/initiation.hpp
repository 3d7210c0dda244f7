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

/// Starts the operation `op` by calling `start(op, has_memory)`. `has_memory` is false if there was no memory to make
/// `op` cancellable; `op` must then end with errc::not_enough_memory. `op` may be destroyed before begin() returns.
template <class Operation, class Start>
void begin(Operation& op, const Start& start) noexcept {
  bool has_memory = true;
  try {
    op.allow_cancel();
  } catch (...) {
    has_memory = false;
  }
  start(op, has_memory);
}

/// Makes an operation for a handler of a completion token, and starts it. `Base` must be a valid base class of
/// suspended_op. `Base` is constructed from `args`, and has
///   static results failed(errc)   the arguments of the handler if there is no memory for the operation
template <class Base, class Handler, class Start, class... Args>
void initiate(Handler& handler, const net::any_io_executor& home, const Start& start, Args&&... args) {
  try {
    begin(*make_suspended<Base>(handler, home, std::forward<Args>(args)...), start);
  } catch (const std::bad_alloc&) {
    // The handler gets the error by a post. An exception thrown here would call std::terminate if the operation is
    // started inside co_await.
    const auto executor = completion_executor(handler, home);  // the executor is read before the handler is moved
    net::post(executor,
              [h = std::move(handler)]() mutable { std::apply(std::move(h), Base::failed(errc::not_enough_memory)); });
  }
}

/// Like initiate(), for a coroutine whose frame has memory for the operation. Allocates nothing.
template <class Base, std::size_t Size, class Handler, class Start, class... Args>
void initiate_in(frame_room<Size>& room, Handler&& handler, const Start& start, Args&&... args) noexcept {
  std::decay_t<Handler> h(std::forward<Handler>(handler));
  begin(*make_suspended_in<Base>(room, h, std::forward<Args>(args)...), start);
}

/// Like park(), for a handler with the arguments `Before...` and T. If T is void, the handler takes only `Before...`.
template <class T, class... Before, class Start>
auto park_for(Start start) {
  if constexpr (std::is_void_v<T>) {
    return park<Before...>(std::move(start));
  } else {
    return park<Before..., T>(std::move(start));
  }
}

/// Whether `co_return co_await park_for<T, Before...>(start)` compiles. If it does not compile, a co_await without
/// co_return is sufficient: park_for() then ends the coroutine itself, and no code after the co_await runs.
template <class T, class... Before>
inline constexpr bool park_returns_a = park_returns<Before..., T> || std::is_void_v<T>;

/// Starts an operation of a client or a store, such as an HTTP request or a command for Redis; see initiation.
struct start_operation {
  template <class Operation>
  void operator()(Operation& op, bool has_memory) const noexcept {
    if (!has_memory) op.fail(errc::not_enough_memory);
    start(op);
  }
};

/// Starts an operation of a client or a store, such as an HTTP request or a command for Redis, for a completion token.
///
/// `Home` is the engine that executes the operation; the operation keeps the engine alive. The namespace of `Home` has
/// a function `executor_of(const Home&)`. `Base` must be a valid base class of suspended_op. The constructor of `Base`
/// takes a pointer to the engine and the arguments. There are also these functions:
///
///     start(Base&) noexcept          a free function in the namespace of `Base`; the operation later ends by a post
///     fail(errc) noexcept            a member: stores the error of the operation, before the operation is started
///     static results failed(errc)    a member: the results if there is no memory for the operation
template <class Base, class Home>
struct initiation {
  std::shared_ptr<Home> home;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return executor_of(*home); }

  template <class Handler, class... Args>
  void operator()(Handler&& handler, Args&&... args) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    initiate<Base>(h, executor_of(*home), start_operation{}, home, std::forward<Args>(args)...);
  }
};

/// The result type of a co_await expression, for a handler with these arguments: void for an error code alone, T for an
/// error code and a T.
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

/// Starts an operation of a client or a store for a coroutine. `Base` and `Home` are as for `initiation`.
template <class Base, class Home, class... Args>
auto await_operation(std::shared_ptr<Home> home, Args... args)
    -> net::awaitable<typename awaited<typename Base::results>::type> {
  using value = typename awaited<typename Base::results>::type;
  constexpr std::size_t most_handler = 16;
  frame_room<sizeof(Base) + most_handler + sizeof(void*)> room;  // with room for a pointer to the canceller
  const auto start = [&](auto&& handler) noexcept {
    initiate_in<Base>(room, std::forward<decltype(handler)>(handler), start_operation{}, std::move(home), args...);
  };
  if constexpr (park_returns_a<value, std::error_code>) {
    co_return co_await park_for<value, std::error_code>(start);
  } else {
    co_await park_for<value, std::error_code>(start);
    std::terminate();
  }
}

}  // namespace canigo::detail
