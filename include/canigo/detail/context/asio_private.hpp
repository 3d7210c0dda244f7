#pragma once

#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/version.hpp>

/// The names that this library uses from inside Asio. Any version of Asio may change these names.
/// asio_private_test.cpp states what the library expects of each name.
///
/// One other file uses such names: named_first.hpp, and only with g++ 12. The compiler's message for its class
/// give_this_a_name_before_co_await is tested together with the other compile errors.
namespace canigo::detail::asio_private {

/// The handler that use_awaitable makes. Its constructor takes the awaitable_thread that `detach_thread()` of a
/// coroutine's frame returns. This handler does not keep the loop running; the co_spawn of the coroutine does.
template <class Executor, class... Args>
using coroutine_handler = net::detail::awaitable_handler<Executor, Args...>;

/// Types for functions that are passed to co_await. Asio calls such a function with the frame of the awaiting
/// coroutine. The function returns the coroutine_thread that continues, or null.
using coroutine_frame = net::detail::awaitable_frame_base<net::any_io_executor>;
using coroutine_thread = net::detail::awaitable_thread<net::any_io_executor>;

#if ASIO_VERSION < 102300
/// A handler that resumes a coroutine which waits in a co_await. The base class coroutine_handler does something else:
/// it ends the waiting coroutine, and the handler's arguments become the coroutine's result.
class resuming_handler : public coroutine_handler<net::any_io_executor> {
 public:
  using coroutine_handler<net::any_io_executor>::coroutine_handler;

  void operator()() {
    frame()->attach_thread(this);
    frame()->clear_cancellation_slot();
    pump();
  }
};
#endif

/// The service that Asio's strands need in their context.
using strand_service = net::detail::strand_executor_service;

}  // namespace canigo::detail::asio_private
