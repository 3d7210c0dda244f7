#pragma once

#include "canigo/cancel.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/jobs/schedule.hpp"
#include "canigo/jobs/service.hpp"
#include "canigo/jobs/store.hpp"
#include "canigo/net.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/time_source.hpp"
#include "canigo/wait_group.hpp"

#include "changes.hpp"
#include "run_report.hpp"
#include "running_job.hpp"
#include "store_health.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace canigo::jobs::detail {

/// The coroutines of a service. For each queue, one coroutine claims jobs and one watches the pool. For each job, one
/// coroutine runs the job and reports its end. One coroutine renews leases, and one listens to the store. Each
/// coroutine has its own strand, and keeps this object alive.
class service_core : public std::enable_shared_from_this<service_core> {
 public:
  service_core(const net::any_io_executor& executor, store& s, service_options o);

  void add(std::string kind, handler h);
  /// Adds a schedule. Its name is the unique key of `j`, or the kind of `j` if there is no key.
  void repeat(new_job j, schedule when);
  void start();
  /// Begins to stop the service. Idempotent; a later call may change the mode to a harder one, such as from
  /// finish_running to cancel_all.
  void request_stop(stop_mode mode, duration grace, std::exception_ptr cause = nullptr);
  /// Cancels all running jobs, and does not wait for their end.
  void abandon() noexcept;

  static net::awaitable<std::string> result(std::shared_ptr<service_core> core, job_id id);
  static net::awaitable<cancel_answer> cancel(std::shared_ptr<service_core> core, job_id id);
  static net::awaitable<void> closed(std::shared_ptr<service_core> core);

  store& jobs() noexcept { return store_; }
  const strand_pool& pool(const std::string& queue) const;
  std::exception_ptr cause() const;
  service_stats stats();

 private:
  struct queue {
    queue(const net::any_io_executor& executor, queue_options q);
    queue_options options;
    strand_pool pool;
    // The service's lock guards the following members.
    std::size_t taken = 0;      // number of claimed jobs whose end was not yet reported to the store
    std::size_t reporting = 0;  // how many of the `taken` jobs have a handler that has ended
    job_queue_stats counts = {};
    time_point trim_at = time_point::min();
    std::size_t claims = 0;  // the store_health::purpose under which this queue's claims are counted
  };
  using running = std::shared_ptr<running_job>;
  struct repetition {
    std::string name;
    new_job job;
    schedule when;
  };

  class at_work;
  static net::awaitable<void> counted(at_work, net::awaitable<void> work);
  void spawn(net::awaitable<void> work);
  void end_work(std::size_t ended) noexcept;
  void listen();
  bool is_stopping() const noexcept { return is_stopping_.load(); }
  std::size_t free_places(const queue& q) const;
  void take(queue& q, claimed_job c, std::shared_ptr<admitted> admission);
  void free_place(queue& q, running_job& r) noexcept;
  void let_go(queue& q, const running& r) noexcept;
  time_point next_renewal() const;
  std::vector<running> to_renew(bool all);

  static net::awaitable<void> open(std::shared_ptr<service_core> core);
  static net::awaitable<void> listen(std::shared_ptr<service_core> core);
  static net::awaitable<void> serve(std::shared_ptr<service_core> core, queue& q);
  static net::awaitable<std::size_t> claim(std::shared_ptr<service_core> core, queue& q, std::size_t places);
  static net::awaitable<void> repeat(std::shared_ptr<service_core> core, const repetition& r);
  static net::awaitable<void> watch(std::shared_ptr<service_core> core, queue& q);
  static net::awaitable<void> keep_leases(std::shared_ptr<service_core> core);
  void start_renewal(running r);
  void has_renewed(running_job& r, bool is_good, time_point asked_at) noexcept;
  static net::awaitable<void> renew(std::shared_ptr<service_core> core, running r);
  static net::awaitable<void> drive(std::shared_ptr<service_core> core, queue& q, running r,
                                    std::shared_ptr<admitted> admission);
  static net::awaitable<void> report_end(std::shared_ptr<service_core> core, queue& q, running r, run_end end);
  static net::awaitable<void> trim(std::shared_ptr<service_core> core, queue& q);
  net::awaitable<void> wait(std::uint64_t& seen, duration most);
  net::awaitable<void> pause_after(std::uint32_t failures);
  static net::awaitable<void> count(std::shared_ptr<service_core> core);
  net::awaitable<void> tell(queue& q, running r, run_report report);
  void note(queue& q, const running_job& r, const run_report& report, bool has_effect) noexcept;
  std::uint64_t random() noexcept { return random_.fetch_add(0x9E3779B97F4A7C15) * 0x5851F42D4C957F2D; }

  const net::any_io_executor executor_;
  time_source& time_;
  store& store_;
  const service_options options_;
  std::map<std::string, handler> handlers_;  // the handler of each kind; constant after start()
  std::list<queue> queues_;
  store_health health_;
  std::list<repetition> repetitions_;  // the schedules; constant after start()

  const std::shared_ptr<changes> news_;        // counts changes in the service or the store
  const std::shared_ptr<changes> store_news_;  // counts only changes in the store
  std::atomic<std::uint64_t> store_changes_{0};
  cancel_source life_;     // cancels all waits of the service, except the waits for running jobs
  wait_group not_closed_;  // counts 1 until the service has stopped
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> is_abandoned_{false};
  std::atomic<std::uint64_t> random_;

  mutable canigo::detail::mutex mutex_;
  bool has_started_ = false;
  bool is_listening_ = false;
  bool is_closed_ = false;
  std::size_t at_work_ = 0;  // the number of coroutines for whose end stop() waits
  std::exception_ptr cause_;
  std::list<running> running_;
  time_point count_at_ = time_point::min();  // when the store may be asked again to count jobs
};

}  // namespace canigo::jobs::detail
