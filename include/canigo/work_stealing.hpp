#pragma once

#include "canigo/detail/stealing/stealing_executor.hpp"
#include "canigo/net.hpp"

#include <asio/io_context.hpp>

namespace canigo {

/// An executor for several threads that run one io_context. Its threads rarely contend for a lock.
///
///     asio::io_context io;
///     canigo::work_stealing pool{io};
///     asio::co_spawn(pool.get_executor(), serve(), asio::detached);
///     std::thread other{[&] { io.run(); }};
///     io.run();
///
/// An io_context has one queue for all of its threads, and each step of a coroutine takes its lock. With work_stealing
/// each thread has its own queue, and a thread that runs out of work takes half of another thread's queue. The
/// io_context still waits for sockets and timers. Its threads run the handlers of the io_context and the functions of
/// this executor in turn. A program may use both executors.
///
/// Order: with one thread, functions run in the order in which they were posted. With several threads, a function may
/// run on another thread than the one that posted it.
/// Turns: a thread runs up to 256 functions as one handler of the io_context; then it checks its sockets, timers and
/// other handlers. run_one() and poll_one() run one such handler, which may find no function to run. After stop() such
/// a handler ends within 16 functions; the other functions wait for restart(). A thread may enter or leave run() at any
/// time.
/// Exceptions: an exception of a function leaves run() and no function is lost; call run() again to continue.
/// End: functions that remain when the io_context is destroyed are destroyed without being called.
/// Allocates: nothing for functions of up to 232 bytes, once the threads have enough memory blocks. The first object
/// for an io_context takes 7 KiB, and each further thread 2.4 KiB. The first object throws std::bad_alloc if there is
/// no memory.
/// Threads: any. All objects for one io_context share the same queues. An executor may outlive these objects, but not
/// the io_context.
class work_stealing {
 public:
  using executor_type = detail::work_stealing_executor;

  explicit work_stealing(net::io_context& io) : service_{&detail::stealing_service::of(io)} {}

  executor_type get_executor() const noexcept { return executor_type{*service_}; }
  net::io_context& context() const noexcept { return service_->context(); }

 private:
  detail::stealing_service* service_;
};

}  // namespace canigo
