#pragma once

#include "canigo/net.hpp"
#include "canigo/work_stealing.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include <cstddef>
#include <thread>
#include <vector>

namespace canigo {

/// Threads that run their own io_context with work_stealing: like asio::thread_pool, but with sockets and timers.
///
///     canigo::thread_pool pool{4};
///     asio::co_spawn(pool, serve(), asio::detached);
///     pool.join();
///
/// It converts to its io_context&, so it can be passed where an io_context is expected: for timers, sockets, limits and
/// posts.
///
/// Exceptions: an exception that leaves a function ends the program, as with asio::thread_pool.
/// Threads: any thread may call any member, but join() and the destructor must not run on a thread of the pool.
class thread_pool {
 public:
  using executor_type = work_stealing::executor_type;

  /// Starts as many threads as the machine can run at the same time.
  thread_pool();
  /// Starts `threads` threads, 1 to 1024. Throws std::system_error (errc::invalid_argument) for another number. If
  /// std::thread can't start one, throws its exception.
  explicit thread_pool(std::size_t threads);
  /// Calls stop() and join(). Functions that have not started are destroyed, but not called.
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  executor_type get_executor() const noexcept { return work_.get_executor(); }
  net::io_context& context() noexcept { return io_; }
  operator net::io_context&() noexcept { return io_; }
  std::size_t size() const noexcept { return threads_.size(); }

  /// Waits until there is no work left, and then ends the threads. A second call returns immediately.
  void join();
  /// Makes the threads end soon, without starting further functions.
  void stop() { io_.stop(); }

 private:
  net::io_context io_;
  work_stealing work_{io_};
  net::executor_work_guard<net::io_context::executor_type> guard_;
  std::vector<std::thread> threads_;
};

}  // namespace canigo
