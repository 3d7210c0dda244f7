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

/// The grant of a limit for one job. The service destroys it when the job has ended.
class admitted {
 public:
  admitted() = default;
  admitted(const admitted&) = delete;
  admitted& operator=(const admitted&) = delete;
  virtual ~admitted() = default;

  /// Runs the job. A grant with a permit that can be lost overrides this function, so that the loss cancels the job.
  virtual net::awaitable<std::string> run(net::awaitable<std::string> work) { return work; }
  /// Called if there was no job to run. This function must give back all tokens of the grant, because they count as
  /// used from the grant on.
  virtual void unused() noexcept {}
};

/// A limit for the jobs of a queue: it returns a coroutine that ends when one job may begin.
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

/// Makes an admission from a limit of the library: a scheduler, a semaphore or a limiter, in this process or in Redis.
/// Each job gets one token or one permit. `r` sets the priority of these jobs among all requests to that limit. `l`
/// must outlive the service.
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
  std::string name = "default";  ///< the name of the queue; 1 to most_name bytes
  std::size_t concurrency = 1;   ///< max number of jobs of the queue that run in this service at once; 1 to 100'000
  duration timeout = duration::max();  ///< the time limit of each run; more than 0; max: none
  /// The delay before the next attempt of a failed job.
  canigo::backoff retry = {.first = std::chrono::seconds{5}, .cap = std::chrono::hours{1}};
  jobs::admission limit = {};                        ///< a limit on the start of jobs, see within(); empty: no limit
  duration keep_ended = std::chrono::hours{24 * 7};  ///< ended jobs are removed after this time; 0 or more; max: never
  std::size_t most_ended = SIZE_MAX;                 ///< max number of ended jobs that are kept; see trim_request
  restart_policy restart = {};                       ///< how often workers may break before the service stops
  pool_observer* observer = nullptr;                 ///< observes the queue's pool; must outlive the service
};

struct service_options {
  std::vector<queue_options> queues = {};     ///< the queues whose jobs this service runs; none: it only submits jobs
  duration lease = std::chrono::seconds{30};  ///< the length of a job's lease, renewed while the job runs; 1 ms or more
  /// The delay before the service uses a failing store again.
  canigo::backoff store_retry = {.first = std::chrono::milliseconds{100}, .cap = std::chrono::seconds{10}};
  /// After this many failures in a row to claim jobs of one queue, the service stops, with the last failure as the
  /// cause. Other calls of the store do not count. 1 or more; unlimited: never.
  std::uint64_t most_store_failures = unlimited;
  /// Whether start() waits for a store that can't be opened, for example because of a missing folder, a missing
  /// database, or tables of a newer version. If false, the service stops, with the store's error as the cause. In
  /// either case the service waits for a store that is full or locked by other processes.
  bool waits_for_store = false;
  store_observer* observer = nullptr;  ///< is told of failures of the store; must outlive the service and its jobs
};

/// The options of one job. Their texts are copied when submit() is called.
struct submit_options {
  std::string_view queue = "default";     ///< the name of the queue; 1 to most_name bytes
  int priority = 0;                       ///< priority class, 0 (goes first) … 15
  duration delay = duration::zero();      ///< time before the job may run; 0 or more
  duration expires_in = duration::max();  ///< time from now to the deadline of the job; more than 0; max: no deadline
  std::uint32_t max_attempts = 25;        ///< max number of attempts; 1 or more
  std::string_view unique = {};           ///< the unique key: no second job with this key is accepted; empty: none
  unique_scope scope = unique_scope::until_ended;  ///< how long the unique key excludes other jobs
  duration unique_for = duration::zero();  ///< with unique_scope::for_a_time: how long the key excludes other jobs
  std::string_view batch = {};             ///< the batch that the job belongs to; empty: none
  std::string_view after_batch = {};       ///< the job waits until all jobs of this batch have ended; empty: none
};

/// Runs the jobs of a store in this process; each queue has its own strand_pool.
///
///     canigo::jobs::sqlite_store store{io, "jobs.db"};
///     canigo::jobs::service jobs{io, store, {.queues = {{.name = "mail", .concurrency = 8}}}};
///     jobs.handle("send", [&](canigo::jobs::job& j) -> net::awaitable<std::string> { … });
///     jobs.start();
///     auto id = co_await jobs.submit("send", payload, {.queue = "mail", .unique = "order-7"});
///     std::string result = co_await jobs.result(id);
///
/// The service claims a job only when a worker is free for it. So a more important job that is submitted later goes
/// first, whichever process submitted it. The service renews the leases of running jobs. If a handler throws, the
/// attempt has failed, and the job waits for its next attempt. A job may run more than once: after a crash, or if its
/// process was suspended for longer than the lease.
///
/// While the store fails, running jobs continue, and the service tries again. Results that can't be written are kept
/// and written later. stats() has the cause of the failures, and service_options::observer is told of them.
///
/// After start(), or a first result(), the service keeps io_context::run() from returning until stop().
///
/// Except for stop(), a call has no effect until its awaitable is started. The awaitable refers to this object until
/// then: start it before this object is destroyed.
/// Errors of the members: those of the store.
/// Threads: any thread may call any member at any time.
/// Lifetime: `store` must outlive the service and its jobs. The destructor cancels running jobs without waiting for
/// them, so call stop() first. The execution context may be destroyed first if the store has the same one.
class service {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range; the text names it and the range.
  service(const net::any_io_executor& executor, store& s, service_options options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  service(ExecutionContext& context, store& s, service_options options)
      : service{net::any_io_executor{context.get_executor()}, s, std::move(options)} {}
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;

  /// Sets the handler for jobs of a kind: net::awaitable<std::string>(job&), or net::awaitable<void>(job&). Jobs that
  /// run at the same time share the handler. Call this before start(). A job without a handler fails, and is retried.
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

  /// Submits a job of the kind for each time of a schedule, from start() on. Call this before start().
  ///
  /// Only the job for the next time of the schedule waits in the store. Its unique key contains that time, so services
  /// in several processes submit it only once. If no process runs at that time, the job runs later. Further times that
  /// pass meanwhile get no job. The name of a schedule is o.unique, or the kind if o.unique is empty. The name has up
  /// to 200 bytes and is unique in a service. In `o`, a delay, a batch and an after_batch are not allowed, and the
  /// scope has no effect. All times are those of the store's clock.
  ///
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range; the text names it and the range.
  void repeat(std::string kind, schedule when, std::string payload, const submit_options& o);
  void repeat(std::string kind, schedule when) { repeat(std::move(kind), std::move(when), {}, submit_options{}); }

  /// Starts to claim and run jobs. Idempotent. If the store can't be opened, the service stops, and closed() throws the
  /// cause; see service_options::waits_for_store.
  void start();

  /// Submits a job. When submit() returns, the job is durable. Returns the number of the job, or of an existing job
  /// with the same unique key.
  net::awaitable<job_id> submit(std::string kind, std::string payload, const submit_options& o);
  net::awaitable<job_id> submit(std::string kind, std::string payload);

  /// Waits until a job has ended, in whatever process it runs, and returns its result.
  ///
  /// Errors: error::job_failed with the text of the last failure, job_crashed, job_expired, job_cancelled,
  /// unknown_job; errc::stopped once the service has stopped.
  /// Cancellation: terminal, partial, total; ends the wait only.
  net::awaitable<std::string> result(job_id id);
  net::awaitable<std::string> submit_and_wait(std::string kind, std::string payload, const submit_options& o);

  /// Ends a waiting job. Cancels a running job: in this process immediately, in another process within about a second.
  net::awaitable<cancel_answer> cancel(job_id id);
  net::awaitable<requeue_answer> requeue(job_id id);
  net::awaitable<void> pause(std::string queue);
  net::awaitable<void> resume(std::string queue);

  /// Begins to stop immediately, before the awaitable is started: claims no more jobs, and stops the pools by `mode`.
  /// `drain` behaves like finish_running: waiting jobs stay in the store.
  ///
  /// A job that was claimed but has not begun is given back immediately. A job that the stop cancels is given back,
  /// too, without using up an attempt. After `grace`, running jobs are cancelled. Returns when no job of this service
  /// runs, and the store has recorded the end of each job. If the store fails, returns when the leases have ended.
  /// Idempotent; a second call can make the mode harder. A handler must not wait for stop(), because stop() waits for
  /// handlers.
  /// Throws errc::invalid_argument immediately for an unknown mode.
  /// Cancellation: terminal, partial, total; ends the wait only.
  net::awaitable<void> stop(stop_mode mode = stop_mode::finish_running, duration grace = duration::max());
  /// Like stop(), but does not wait, so a handler may call it, too.
  void request_stop(stop_mode mode = stop_mode::finish_running, duration grace = duration::max());
  /// Waits until the service has stopped. If it stopped by itself, throws the cause: the store's error, the error of a
  /// limit that was stopped, or the error of workers that broke too often.
  net::awaitable<void> closed();
  /// Returns a function that calls request_stop(), and that may be called after this object is destroyed. Internal to
  /// the library.
  std::function<void(stop_mode, duration)> stopper() const;

  /// The pool of a queue, for its statistics: `exporter.add("mail", jobs.pool("mail"))`. The names of its tasks are the
  /// kinds of the jobs. The pool lives as long as the service. Throws errc::invalid_argument if the service has no such
  /// queue.
  const strand_pool& pool(const std::string& queue) const;

  /// The jobs that ran in this service, by how they ended, and the jobs of all processes: `exporter.add("jobs", jobs)`.
  ///
  /// This function does not wait for the store. A call makes the store count its jobs; a later call returns these
  /// counts. The store counts at most once a second. After a count that took T, the next count comes after 10 T at the
  /// earliest. Allocates.
  service_stats stats() const;

 private:
  void add(std::string kind, detail::handler h);

  std::shared_ptr<detail::service_core> core_;
};

}  // namespace canigo::jobs
