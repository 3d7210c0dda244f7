#pragma once

#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/version.hpp>

/// All that this library takes from inside Asio, where names may change with any version. No other file names one.
///
/// asio_private_test.cpp states what is expected of each. The message of give_this_a_name_before_co_await, which g++ 12
/// alone needs, is tested with the compile errors.
namespace canigo::detail::asio_private {

/// The handler that use_awaitable makes. It is built from the thread that a frame gives away (`detach_thread()`), and
/// its co_spawn keeps the loop running.
template <class Executor, class... Args>
using coroutine_handler = net::detail::awaitable_handler<Executor, Args...>;

/// co_await calls a function with the frame that awaits. The function returns the thread that goes on, or null.
using coroutine_frame = net::detail::awaitable_frame_base<net::any_io_executor>;
using coroutine_thread = net::detail::awaitable_thread<net::any_io_executor>;

#if ASIO_VERSION < 102300
/// Resumes the coroutine that waits, behind its co_await. A coroutine_handler ends that coroutine instead, and returns
/// the handler's arguments for it.
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

/// The service of a context that its strands need.
using strand_service = net::detail::strand_executor_service;

}  // namespace canigo::detail::asio_private
