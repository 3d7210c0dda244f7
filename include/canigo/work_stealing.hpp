#pragma once

#include "canigo/detail/stealing/stealing_executor.hpp"
#include "canigo/net.hpp"

#include <asio/io_context.hpp>

namespace canigo {

/// An executor for the threads that run an io_context, on which they seldom meet at a lock.
///
///     asio::io_context io;
///     canigo::work_stealing pool{io};
///     asio::co_spawn(pool.get_executor(), serve(), asio::detached);
///     std::thread other{[&] { io.run(); }};
///     io.run();
///
/// An io_context has one queue for all of its threads, and each step of a coroutine takes its lock. Here a thread has a
/// queue of its own, and one that runs out of work takes half of another's. The io_context stays as it is: it waits for
/// sockets and timers, and its threads run its own handlers and these in turn. A program may use both executors.
///
/// Order: with one thread, as posted. With several, a function may be run by another thread than the one that posts it.
/// Turns: a thread runs up to 256 functions as one handler of the io_context, then looks at its sockets, timers and
/// other handlers. run_one() and poll_one() run one such handler, which may find nothing to do. After stop() a turn
/// ends within 16 functions; the rest waits for restart(). A thread may enter or leave run() at any time.
/// Exceptions: leave run() and lose nothing; call run() again to go on.
/// End: functions that are left when the io_context is destroyed are destroyed, and not called.
/// Allocation: none once the threads have blocks enough, for functions of up to 232 bytes. The first object of an
/// io_context takes 7 KiB, and each further thread that is seen 2.4 KiB; std::bad_alloc if there is none for the first.
/// Threads: any. All objects of one io_context are the same one; an executor may outlive them, but not the io_context.
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
