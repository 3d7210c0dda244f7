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
  std::size_t concurrency = 0;       ///< required: workers, each on its own strand; 1 to 100'000
  int priorities = 1;                ///< classes 0 (first) … priorities-1; 1 to 1024
  std::size_t queue_limit = 10'000;  ///< most tasks that wait: queued beyond the free workers, or delayed; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< any; overflow::wait holds callers back until there is room
  duration timeout = duration::max();  ///< of each attempt, unless the task has its own; more than 0; max: none
  retry_policy retry = {};             ///< unless the task has its own
  restart_policy restart = {};         ///< how often workers may break before the pool stops
  pool_observer* observer = nullptr;   ///< must outlive the pool and its last task
};

/// Runs at most `concurrency` operations at once, the important ones first.
///
///     canigo::strand_pool pool{io, {.concurrency = 8, .priorities = 3}};
///     int n = co_await pool.run([] { return 42; });
///     auto r = co_await pool.run([&](canigo::task_context& t) -> net::awaitable<reply> { … }, {.timeout = 2s});
///     canigo::task<int> t = pool.submit(work, {.priority = 1, .name = "resize"});
///     bool queued = pool.try_post([] { … });
///     canigo::stop_report report = co_await pool.stop(canigo::stop_mode::finish_running, 30s);
///
/// No worker is idle while a task could run. A slot is free again only when its operation has really ended.
///
/// An exception means a failed task, never a lost worker. An exception that is fatal (restart_policy) restarts the
/// worker. Past the restart limit the pool stops, with that exception as the cause. An idle pool keeps no loop
/// running.
///
/// The members are those of every pool: run, async_run, submit, try_post, stop and others. See pool_handle for them,
/// their errors, cancellation, threads and lifetime.
class strand_pool : public pool_handle<void> {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  strand_pool(const net::any_io_executor& executor, const strand_pool_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  strand_pool(ExecutionContext& context, const strand_pool_options& options)
      : strand_pool{net::any_io_executor{context.get_executor()}, options} {}
  /// Does not compile: the compiler's message says what to write.
  template <detail::any_context Context>
  strand_pool(const Context&, const detail::misfit_options&)
      : strand_pool{net::any_io_executor{}, strand_pool_options{}} {
    static_assert(!detail::any_context<Context>,
                  "strand_pool: a field is another class's, or has another type: .timeout is a span such as 2s, "
                  ".concurrency a whole number");
  }
  /// Does not compile: the compiler's message says what to write.
  template <detail::any_context Context, detail::bare_value<strand_pool_options> Value>
  strand_pool(const Context&, const Value&) : strand_pool{net::any_io_executor{}, strand_pool_options{}} {
    static_assert(!detail::any_context<Context>, "strand_pool: name the field: strand_pool{io, {.concurrency = 4}}");
  }
  ~strand_pool() = default;
};

}  // namespace canigo
