#pragma once

#include "canigo/detail/context/misuse.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"
#include "canigo/pool_handle.hpp"
#include "canigo/request.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/task.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>

namespace canigo {

struct strand_pool_options {
  std::size_t concurrency = 0;  ///< required: number of workers, each on its own strand; 1 to 100'000
  int priorities = 1;           ///< number of priority classes, 1 to 1024; class 0 goes first
  /// max number of waiting tasks: delayed tasks, and queued tasks for which no worker is free; 1 or more
  std::size_t queue_limit = 10'000;
  /// how a full queue treats a new task; overflow::wait suspends callers until there is room
  overflow on_overflow = overflow::reject_new;
  /// time limit of each attempt, unless the task has its own; more than 0; max: none
  duration timeout = duration::max();
  retry_policy retry = {};            ///< the retry policy of tasks without their own policy
  restart_policy restart = {};        ///< how often workers may break before the pool stops
  pool_observer* observer = nullptr;  ///< gets the events of the pool's tasks; must outlive the pool and its last task
};

/// Runs at most `concurrency` operations at the same time, the important ones first.
///
///     canigo::strand_pool pool{io, {.concurrency = 8, .priorities = 3}};
///     int n = co_await pool.run([] { return 42; });
///     auto r = co_await pool.run([&](canigo::task_context& t) -> net::awaitable<reply> { … }, {.timeout = 2s});
///     canigo::task<int> t = pool.submit(work, {.priority = 1, .name = "resize"});
///     bool queued = pool.try_post([] { … });
///     canigo::stop_report report = co_await pool.stop(canigo::stop_mode::finish_running, 30s);
///
/// No worker is idle while a task could run. A worker takes the next operation only after the previous one has really
/// ended.
///
/// An exception of an operation fails its task; the worker survives. A fatal exception (restart_policy) restarts the
/// worker. After too many restarts the pool stops, with the last exception as the cause. An idle pool does not keep
/// io_context::run() from returning.
///
/// The base class pool_handle has the members run(), async_run(), submit(), try_post(), stop() and others. It describes
/// their errors, cancellation, threads and lifetime.
class strand_pool : public pool_handle<void> {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  strand_pool(const net::any_io_executor& executor, const strand_pool_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  strand_pool(ExecutionContext& context, const strand_pool_options& options)
      : strand_pool{net::any_io_executor{context.get_executor()}, options} {}
  /// Rejects options with a wrong field, or with a field of the wrong type, at compile time. The compiler's message
  /// names the right types.
  template <detail::any_context Context>
  strand_pool(const Context&, const detail::misfit_options&)
      : strand_pool{net::any_io_executor{}, strand_pool_options{}} {
    static_assert(!detail::any_context<Context>,
                  "strand_pool: a field is another class's, or has another type: .timeout is a span such as 2s, "
                  ".concurrency a whole number");
  }
  /// Rejects a plain value instead of options at compile time. The compiler's message shows how to name the field.
  template <detail::any_context Context, detail::bare_value<strand_pool_options> Value>
  strand_pool(const Context&, const Value&) : strand_pool{net::any_io_executor{}, strand_pool_options{}} {
    static_assert(!detail::any_context<Context>, "strand_pool: name the field: strand_pool{io, {.concurrency = 4}}");
  }
  ~strand_pool() = default;
};

}  // namespace canigo
