// Why acquire() makes a coroutine frame also if a permit is free: Asio has no way to await a value that is there and
// keeps the type awaitable. If one of these assertions fails with a newer Asio, that Asio may have one.

#include "canigo/net.hpp"

#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <coroutine>
#include <type_traits>
#include <utility>

namespace net = canigo::net;

namespace ready_value_run {

using promise = std::coroutine_traits<net::awaitable<void>>::promise_type;

template <class T>
concept is_awaited = requires(promise& p, T t) { p.await_transform(std::move(t)); };

/// What acquire() would return: a value if it is there, else a coroutine.
struct value_or_coroutine {
  int value = 0;
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) noexcept {}
  int await_resume() const noexcept { return value; }
  operator net::awaitable<int>() const;
};

net::awaitable<int> answer() { co_return 42; }

}  // namespace ready_value_run

using namespace ready_value_run;

// An awaitable is a pointer to a frame of a coroutine. It has no room for a value, and is made of none.
static_assert(sizeof(net::awaitable<int>) == sizeof(void*));
static_assert(!std::is_constructible_v<net::awaitable<int>, int>);
static_assert(!std::is_constructible_v<net::awaitable<int>, std::coroutine_handle<>>);

// A coroutine of Asio awaits an awaitable, and nothing that stands for one.
static_assert(is_awaited<net::awaitable<int>>);
static_assert(!is_awaited<value_or_coroutine>);
static_assert(std::is_convertible_v<value_or_coroutine, net::awaitable<int>>);

TEST_CASE("an awaitable is never ready, so that its coroutine has a frame", "[ready_value]") {
  net::io_context io;
  int result = 0;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        net::awaitable<int> a = answer();
        CHECK_FALSE(a.await_ready());
        result = co_await std::move(a);
        CHECK_FALSE(net::awaitable<int>{}.await_ready());  // and this one has none, and must not be awaited
      },
      net::detached);
  io.run();
  CHECK(result == 42);
}
