#pragma once

#include "canigo/algorithms/backoff.hpp"
#include "canigo/concepts.hpp"
#include "canigo/jobs/job.hpp"
#include "canigo/jobs/job_info.hpp"
#include "canigo/jobs/schedule.hpp"
#include "canigo/jobs/service_stats.hpp"
#include "canigo/jobs/store.hpp"
#include "canigo/jobs/store_observer.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"
#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/time.hpp"
#include "canigo/with_limit.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace canigo::jobs {

namespace detail {
class service_core;
using handler = std::function<net::awaitable<std::string>(job&)>;
}  // namespace detail

/// The grant of a limit for one job. It is dropped when the job has ended.
class admitted {
 public:
  admitted() = default;
  admitted(const admitted&) = delete;
  admitted& operator=(const admitted&) = delete;
  virtual ~admitted() = default;

  /// Runs the job. A grant whose permit can be lost overrides this, and ends the job with it.
  virtual net::awaitable<std::string> run(net::awaitable<std::string> work) { return work; }
  /// Called if there was no job to run. It must also give back the tokens that count as used from the grant on.
  virtual void unused() noexcept {}
};

/// Lets the jobs of a queue run within a limit: a coroutine that ends when one job may begin.
using admission = std::function<net::awaitable<std::shared_ptr<admitted>>()>;

namespace detail {

template <limit Limit>
class tokens_of final : public admitted {
 public:
  explicit tokens_of(Limit& l) noexcept : limit_{&l} {}
  void unused() noexcept override {
    if constexpr (throughput_limit<Limit>) limit_->refund(1);
  }

 private:
  Limit* limit_;
};

template <permit_like Permit>
class permit_of final : public admitted {
 public:
  explicit permit_of(Permit p) noexcept : permit_{std::move(p)} {}
  net::awaitable<std::string> run(net::awaitable<std::string> work) override {
    if constexpr (canigo::detail::reporting_permit<Permit>) {
      return canigo::detail::run_and_report(std::move(work), permit_);
    } else if constexpr (revocable_permit<Permit>) {
      return permit_.wrap(std::move(work));
    } else {
      return work;
    }
  }
  void unused() noexcept override {
    if constexpr (canigo::detail::settling_permit<Permit>) permit_.settle(0);
    permit_.release();
  }

 private:
  Permit permit_;
};

}  // namespace detail

/// The admission by a limit of the library, for one token or permit a job: a scheduler, semaphore or limiter, or one in
/// Redis. `r` has the priority of these jobs among all requests to that limit. `l` must outlive the service.
template <limit Limit>
admission within(Limit& l, request r = {}) {
  return [&l, r]() -> net::awaitable<std::shared_ptr<admitted>> {
    if constexpr (std::is_void_v<grant_of<Limit>>) {
      co_await l.acquire(r);
      co_return std::make_shared<detail::tokens_of<Limit>>(l);
    } else {
      co_return std::make_shared<detail::permit_of<grant_of<Limit>>>(co_await l.acquire(r));
    }
  };
}

struct queue_options {
  std::string name = "default";        ///< 1 to most_name bytes
  std::size_t concurrency = 1;         ///< jobs of this service that run at once; 1 to 100'000
  duration timeout = duration::max();  ///< the time limit of each run; more than 0; max: none
  /// The delays between the attempts of a job.
  canigo::backoff retry = {.first = std::chrono::seconds{5}, .cap = std::chrono::hours{1}};
  jobs::admission limit = {};                        ///< empty: no limit; see within()
  duration keep_ended = std::chrono::hours{24 * 7};  ///< jobs that ended longer ago are removed; 0 or more; max: never
  std::size_t most_ended = SIZE_MAX;                 ///< how many jobs that have ended stay, at most; see trim_request
  restart_policy restart = {};                       ///< how often workers may break before the service stops
  pool_observer* observer = nullptr;                 ///< observes the queue's pool; must outlive the service
};

struct service_options {
  std::vector<queue_options> queues = {};     ///< the queues that it takes jobs from; none: it only hands jobs in
  duration lease = std::chrono::seconds{30};  ///< renewed while a job runs; 1 ms or more
  /// The delays between the attempts to use a store that fails.
  canigo::backoff store_retry = {.first = std::chrono::milliseconds{100}, .cap = std::chrono::seconds{10}};
  /// After so many failures in a row to take jobs for one queue, the service stops with the last one as the cause.
  /// Other calls of the store do not count. 1 or more; unlimited: never.
  std::uint64_t most_store_failures = unlimited;
  /// Whether start() waits for a store that can't be opened, such as a file in a missing folder, a missing database, or
  /// tables of a newer version. If not, the service stops, with the store's error as the cause. A store that others
  /// keep locked, or that is full, is waited for in either case.
  bool waits_for_store = false;
  store_observer* observer = nullptr;  ///< is told of the store's failures; must outlive the service and its jobs
};

/// The names are copied at the call.
struct submit_options {
  std::string_view queue = "default";              ///< 1 to most_name bytes
  int priority = 0;                                ///< class, 0 (first) … 15
  duration delay = duration::zero();               ///< before it may run; 0 or more
  duration expires_in = duration::max();           ///< its deadline, from now; more than 0; max: none
  std::uint32_t max_attempts = 25;                 ///< 1 or more
  std::string_view unique = {};                    ///< the key of which only one job exists at a time; empty: none
  unique_scope scope = unique_scope::until_ended;  ///< how long it is the only one
  duration unique_for = duration::zero();          ///< for unique_scope::for_a_time
  std::string_view batch = {};                     ///< the batch that it is one of; empty: none
  std::string_view after_batch = {};               ///< it waits until all jobs of this batch have ended; empty: none
};

/// Runs the jobs of a store in this process: each queue in a strand_pool.
///
///     canigo::jobs::sqlite_store store{io, "jobs.db"};
///     canigo::jobs::service jobs{io, store, {.queues = {{.name = "mail", .concurrency = 8}}}};
///     jobs.handle("send", [&](canigo::jobs::job& j) -> net::awaitable<std::string> { … });
///     jobs.start();
///     auto id = co_await jobs.submit("send", payload, {.queue = "mail", .unique = "order-7"});
///     std::string result = co_await jobs.result(id);
///
/// It claims only what it can run at once. So a job that comes later and is more important goes first, whatever process
/// it came from. It renews the leases of what runs. A handler that throws has failed, and the job waits for its next
/// attempt. A job may run more than once: after a crash, or if its process stood still for longer than the lease.
///
/// While the store fails, jobs go on, and the service tries again. A result that can't be written is kept and written
/// later. stats() has the cause, and service_options::observer is told of it.
///
/// A service that was started, or has waited for a result, keeps the loop of its context running until stop().
///
/// An awaitable has no effect before it is started, except that of stop(). Until then it refers to this object: start
/// it before this object is destroyed.
/// Errors of the members: those of the store.
/// Threads: any, all members, at once.
/// Lifetime: `store` must outlive the service and its jobs. The destructor cancels what runs, and waits for nothing:
/// call stop() first. The execution context may be destroyed first if it is that of the store, too.
class service {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  service(const net::any_io_executor& executor, store& s, service_options options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  service(ExecutionContext& context, store& s, service_options options)
      : service{net::any_io_executor{context.get_executor()}, s, std::move(options)} {}
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;

  /// Names the function for jobs of a kind: net::awaitable<std::string>(job&), or net::awaitable<void>(job&). Jobs
  /// that run at once share it. Call it before start(). A job without a handler fails, and is tried again.
  template <class F>
    requires std::invocable<F&, job&>
  void handle(std::string kind, F f) {
    using result = typename std::invoke_result_t<F&, job&>::value_type;
    if constexpr (std::is_void_v<result>) {
      add(std::move(kind), [f = std::move(f)](job& j) mutable -> net::awaitable<std::string> {
        co_await f(j);
        co_return std::string{};
      });
    } else {
      add(std::move(kind), std::move(f));
    }
  }

  /// Hands in a job of the kind for each time of a schedule, from start() on. Call it before start().
  ///
  /// One job at a time waits in the store, for the next time of the schedule. Its key contains that time, so only one
  /// of all services and processes hands it in. If no process runs at that time, the job runs once one does, and later
  /// times that were missed have no job. The name of a schedule is o.unique, or the kind. It has up to 200 bytes, and
  /// no two schedules of a service have the same name. Of the other options, a delay and a batch are refused, and the
  /// scope has no effect. Each time counts by the clock of the store.
  ///
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  void repeat(std::string kind, schedule when, std::string payload, const submit_options& o);
  void repeat(std::string kind, schedule when) { repeat(std::move(kind), std::move(when), {}, submit_options{}); }

  /// Begins to take jobs. Idempotent. If the store can't be opened, the service stops, and closed() throws the cause;
  /// see service_options::waits_for_store.
  void start();

  /// Hands a job in. When it returns, the job is durable. Returns its number, or that of the job with the same key.
  net::awaitable<job_id> submit(std::string kind, std::string payload, const submit_options& o);
  net::awaitable<job_id> submit(std::string kind, std::string payload);

  /// Waits for the end of a job, whatever process runs it, and returns its result.
  ///
  /// Errors: error::job_failed with the text of the last failure, job_crashed, job_expired, job_cancelled,
  /// unknown_job; errc::stopped once the service has stopped.
  /// Cancellation: terminal, partial, total; ends the wait only.
  net::awaitable<std::string> result(job_id id);
  net::awaitable<std::string> submit_and_wait(std::string kind, std::string payload, const submit_options& o);

  /// Ends a job that waits. Cancels one that runs: here at once, in other processes within a second or so.
  net::awaitable<cancel_answer> cancel(job_id id);
  net::awaitable<requeue_answer> requeue(job_id id);
  net::awaitable<void> pause(std::string queue);
  net::awaitable<void> resume(std::string queue);

  /// Begins to stop, at the call: takes no more jobs, and stops the pools by `mode`. `drain` acts like finish_running:
  /// it leaves the jobs that wait in the store.
  ///
  /// A job that was claimed and not begun goes back at once. A job that the stop cancels goes back, too, and uses up no
  /// attempt. After `grace`, the jobs that still run are cancelled. Returns when no job of this service runs and the
  /// store knows the end of each. If the store fails, returns when the leases are over. Idempotent; a harder mode may
  /// follow. A handler must not wait for it, because it waits for handlers. Throws errc::invalid_argument, at once, for
  /// an unknown mode.
  /// Cancellation: terminal, partial, total; ends the wait only.
  net::awaitable<void> stop(stop_mode mode = stop_mode::finish_running, duration grace = duration::max());
  /// Like stop(), without waiting; also for a handler.
  void request_stop(stop_mode mode = stop_mode::finish_running, duration grace = duration::max());
  /// Waits until the service has stopped. If the service stopped by itself, throws the cause: the store's error, that
  /// of a limit which was stopped, or that of workers which broke too often.
  net::awaitable<void> closed();
  /// A function that calls request_stop(), and that may be called after this object has gone. For the library itself.
  std::function<void(stop_mode, duration)> stopper() const;

  /// The pool of a queue, for its statistics: `exporter.add("mail", jobs.pool("mail"))`. Its tasks have the names of
  /// their kinds. It lives as long as the service. Throws errc::invalid_argument for a queue that is not the service's.
  const strand_pool& pool(const std::string& queue) const;

  /// The jobs that ran here, by how they ended, and those of all processes: `exporter.add("jobs", jobs)`.
  ///
  /// It does not wait for the store. A call lets the store count its jobs, for a tenth of the time and once a second at
  /// most; a later call returns these counts. Allocates.
  service_stats stats() const;

 private:
  void add(std::string kind, detail::handler h);

  std::shared_ptr<detail::service_core> core_;
};

}  // namespace canigo::jobs
