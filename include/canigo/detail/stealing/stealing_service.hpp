#pragma once

#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/stealing/pump_crew.hpp"
#include "canigo/net.hpp"

#include <asio/execution_context.hpp>
#include <asio/io_context.hpp>

#include <atomic>
#include <exception>

namespace canigo::detail {

/// The state of work_stealing for one io_context: its pumps (work queues, each run by an operation of the io_context).
class stealing_service final : public net::execution_context::service, private pump_crew {
 public:
  using key_type = stealing_service;
  static net::execution_context::id id;

  explicit stealing_service(net::execution_context& context);

  /// The service of `io`. The first call creates it; throws std::bad_alloc.
  static stealing_service& of(net::io_context& io);

  net::io_context& context() const noexcept { return io_.context(); }
  /// Whether the calling thread runs the loop of the io_context.
  bool runs_here() const noexcept;
  /// Adds work, from any thread. If the context is destroyed first, the work is destroyed with it.
  void push(work_item& item, bool is_continuation) noexcept;
  /// Makes the io_context's run() throw `e`. Call it if execute() of an executor has called a function, and that
  /// function has thrown `e`.
  void throw_from_run(std::exception_ptr e);

 private:
  void shutdown() override;
  void bring(pump& p) noexcept override;
  bool is_loop_stopped() const noexcept override { return context().stopped(); }
  void run(pump& p);
  void push_to_loop(work_item& item) noexcept;

  net::io_context::executor_type io_;
  std::atomic<bool> is_over_{false};
};

}  // namespace canigo::detail
