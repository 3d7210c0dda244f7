#include "canigo/detail/context/asio_private.hpp"

#include "canigo/net.hpp"

#include "support/catch.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/execution_context.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace net = canigo::net;
namespace inside = canigo::detail::asio_private;

namespace {

/// Notes the type of the handler that an initiation gets, and completes it.
template <class Expected>
struct handler_check {
  bool* is_expected;

  template <class Handler>
  void operator()(Handler&& handler) const {
    *is_expected = std::is_same_v<std::decay_t<Handler>, Expected>;
    std::forward<Handler>(handler)(std::exception_ptr{}, 7);
  }
};

}  // namespace

TEST_CASE("use_awaitable hands an initiation the handler that the library knows", "[asio_private]") {
  using expected = inside::coroutine_handler<net::any_io_executor, std::exception_ptr, int>;
  net::io_context io;
  bool is_expected = false;
  int value = 0;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        value = co_await net::async_initiate<const net::use_awaitable_t<>, void(std::exception_ptr, int)>(
            handler_check<expected>{&is_expected}, net::use_awaitable);
      },
      net::detached);
  io.run();
  CHECK(is_expected);
  CHECK(value == 7);
}

TEST_CASE("co_await calls a function with the frame, and goes on with the thread it returns", "[asio_private]") {
  static_assert(std::is_constructible_v<inside::coroutine_handler<net::any_io_executor>,
                                        decltype(std::declval<inside::coroutine_frame&>().detach_thread())>);
  static_assert(std::is_base_of_v<inside::coroutine_thread, inside::coroutine_handler<net::any_io_executor>>);
  net::io_context io;
  bool was_called = false, went_on = false;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        co_await [&](inside::coroutine_frame* frame) -> inside::coroutine_thread* {
          was_called = frame != nullptr;
          inside::coroutine_handler<net::any_io_executor> handler{frame->detach_thread()};
          net::post(io, [&went_on, h = std::move(handler)]() mutable {
            went_on = true;
            h();
          });
          return nullptr;
        };
      },
      net::detached);
  io.run();
  CHECK((was_called && went_on));
}

TEST_CASE("a strand finds the service of strands that its context has already", "[asio_private]") {
  net::io_context io;
  auto& service = net::use_service<inside::strand_service>(io);
  const auto strand = net::make_strand(io);
  CHECK(net::has_service<inside::strand_service>(io));
  CHECK(&service == &net::use_service<inside::strand_service>(strand.get_inner_executor().context()));
}
