#include "canigo/detail/coro/run_on.hpp"

#include "canigo/detail/context/marked_executor.hpp"
#include "canigo/net.hpp"

#include "support/catch.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/cancellation_state.hpp>
#include <asio/co_spawn.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

using namespace canigo;

namespace run_on_tests {

const int maker = 0;

net::any_io_executor marked(const net::any_io_executor& executor) {
  return detail::marked_executor{std::make_shared<detail::executor_mark>(&maker, executor)};
}

/// What `work` ends with. It can be cancelled by `signal`, and has been suspended once before it begins.
template <class T>
std::pair<std::exception_ptr, T> end_of(net::cancellation_signal& signal, std::function<net::awaitable<T>()> work) {
  std::pair<std::exception_ptr, T> end{};
  int calls = 0;
  net::io_context io;
  const auto begin = [&work]() -> net::awaitable<T> {
    co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
    co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
    co_await net::this_coro::throw_if_cancelled(false);
    co_return co_await work();
  };
  net::co_spawn(io, begin(), net::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr error, T value) {
                  end = {error, value};
                  ++calls;
                }));
  io.run();
  CHECK(calls == 1);
  return end;
}

}  // namespace run_on_tests

using namespace run_on_tests;

TEST_CASE("an operation on another executor ends as it would have by itself", "[run_on]") {
  net::cancellation_signal nobody;
  const auto [error, value] = end_of<int>(nobody, []() -> net::awaitable<int> {
    const net::any_io_executor own = co_await net::this_coro::executor;
    const auto whose = []() -> net::awaitable<std::shared_ptr<detail::executor_mark>> {
      co_return detail::mark_of(co_await net::this_coro::executor, &maker);
    };
    CHECK(co_await detail::run_on(marked(own), whose()) != nullptr);
    CHECK(co_await whose() == nullptr);
    int ran = 0;
    const auto nothing = [&ran]() -> net::awaitable<void> {
      ++ran;
      co_return;
    };
    co_await detail::run_on(marked(own), nothing());
    CHECK(ran == 1);
    const auto fails = []() -> net::awaitable<int> {
      throw std::runtime_error{"no"};
      co_return 0;
    };
    CHECK_THROWS_AS(co_await detail::run_on(marked(own), fails()), std::runtime_error);
    const auto seven = []() -> net::awaitable<int> { co_return 7; };
    co_return co_await detail::run_on(marked(own), seven());
  });
  CHECK(error == nullptr);
  CHECK(value == 7);
}

TEST_CASE("every kind of cancellation reaches an operation on another executor", "[run_on]") {
  for (const auto type :
       {net::cancellation_type::terminal, net::cancellation_type::partial, net::cancellation_type::total}) {
    net::cancellation_signal signal;
    const auto [error, value] = end_of<int>(signal, [&]() -> net::awaitable<int> {
      const net::any_io_executor own = co_await net::this_coro::executor;
      net::post(own, [&signal, type] { signal.emit(type); });
      const auto hear = []() -> net::awaitable<int> {
        co_await net::this_coro::throw_if_cancelled(false);
        co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
        const net::cancellation_state state = co_await net::this_coro::cancellation_state;
        co_return static_cast<int>(state.cancelled());
      };
      co_return co_await detail::run_on(marked(own), hear());
    });
    CHECK(error == nullptr);
    CHECK(value == static_cast<int>(type));
  }
}

// Some versions of Asio answer this by an exception out of run(): decision 0071.
TEST_CASE("an operation may be cancelled and end without having been suspended", "[run_on]") {
  net::cancellation_signal signal;
  const bool fails = GENERATE(false, true);
  const auto [error, value] = end_of<int>(signal, [&]() -> net::awaitable<int> {
    const auto ends_at_once = [&]() -> net::awaitable<int> {
      signal.emit(net::cancellation_type::terminal);
      if (fails) throw std::system_error{net::error::operation_aborted};
      co_return 3;
    };
    co_return co_await detail::run_on(marked(co_await net::this_coro::executor), ends_at_once());
  });
  CHECK((error != nullptr) == fails);
  CHECK(value == (fails ? 0 : 3));
}
