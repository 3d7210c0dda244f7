#pragma once

#include "canigo/net.hpp"
#include "canigo/work_stealing.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include <cstddef>
#include <thread>
#include <vector>

namespace canigo {

/// Threads with an io_context of their own, on which work_stealing runs: an asio::thread_pool with sockets and timers.
///
///     canigo::thread_pool pool{4};
///     asio::co_spawn(pool, serve(), asio::detached);
///     pool.join();
///
/// It stands for its io_context where one is asked for: for timers, sockets, limits and posts.
///
/// Exceptions: one that leaves a function ends the program, as with asio::thread_pool.
/// Threads: any, for all members; join() and the destructor not from a thread of the pool.
class thread_pool {
 public:
  using executor_type = work_stealing::executor_type;

  /// As many threads as the machine runs at once.
  thread_pool();
  /// threads: 1 to 1024. Throws std::system_error, errc::invalid_argument, for another number, or what std::thread
  /// throws if there can't be as many.
  explicit thread_pool(std::size_t threads);
  /// As stop() and join(). Functions that are left are destroyed, and not called.
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  executor_type get_executor() const noexcept { return work_.get_executor(); }
  net::io_context& context() noexcept { return io_; }
  operator net::io_context&() noexcept { return io_; }
  std::size_t size() const noexcept { return threads_.size(); }

  /// Waits until no work is left, and ends the threads. The second call returns at once.
  void join();
  /// The threads end soon; functions that have not begun are left.
  void stop() { io_.stop(); }

 private:
  net::io_context io_;
  work_stealing work_{io_};
  net::executor_work_guard<net::io_context::executor_type> guard_;
  std::vector<std::thread> threads_;
};

}  // namespace canigo
