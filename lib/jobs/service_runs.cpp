#include "canigo/error.hpp"
#include "canigo/timeout.hpp"

#include "service_core.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>

// The functions of service_core that begin, run and end jobs.

namespace canigo::jobs::detail {
namespace {

/// The least time between two trims of a queue. A trim deletes ended jobs, and starts when a job ends.
constexpr duration trim_every = std::chrono::minutes{1};

}  // namespace

std::size_t service_core::free_places(const queue& q) const {
  const std::lock_guard lock{mutex_};
  const std::size_t most = q.options.concurrency;
  // A job whose handler has ended needs no worker, even if its end is not stored yet. So the next job can be claimed in
  // the transaction that stores this end. If the store accepts no ends, this service holds at most 2 * `most` jobs of
  // the queue.
  const std::size_t free = most - std::min(q.taken - q.reporting, most);
  return std::min(free, 2 * most - std::min(q.taken, 2 * most));
}

net::awaitable<void> service_core::serve(std::shared_ptr<service_core> core, queue& q) {
  std::uint64_t seen = 0;
  bool has_more = false;  // whether the last claim got as many jobs as it had asked for
  for (std::uint32_t failures = 0; !core->is_stopping();) {
    std::exception_ptr failed;
    try {
      const std::size_t places = core->free_places(q);
      duration due = has_more ? duration::zero() : duration::max();
      if (places > 0 && !has_more) due = co_await core->store_.next_due(q.options.name);
      if (places > 0 && due <= duration::zero()) {
        has_more = false;
        const std::size_t came = co_await claim(core, q, places);
        if (came > 0) {
          failures = 0;
          core->health_.succeeded(q.claims, true);
          // If a claim gets as many jobs as it asked for, there are probably more jobs. So the next claim follows
          // immediately, without a call of next_due(). But if the queue has a limit, claim() waits for the limit before
          // it looks for a job. In that case next_due() first checks whether a job is due.
          has_more = came == places && !q.options.limit;
          continue;
        }
        // The claim found no job, because only a lease or a deadline was due, or because another process claimed the
        // job first. So the claim is tried again when the next job is due.
        due = std::max<duration>(co_await core->store_.next_due(q.options.name), std::chrono::milliseconds{1});
      }
      failures = 0;
      // without a free slot the store was not used, so its health is unknown
      if (places > 0) core->health_.succeeded(q.claims);
      co_await core->wait(seen, has_more ? duration::max() : due);
    } catch (...) {
      failed = std::current_exception();
    }
    if (!failed || core->is_stopping()) continue;
    ++failures;
    core->health_.failed(q.claims, failed);
    const bool is_for_good = code_of(failed) == errc::stopped;
    if (is_for_good || failures >= core->options_.most_store_failures) {
      core->request_stop(stop_mode::finish_running, duration::max(), failed);
      co_return;
    }
    co_await core->pause_after(failures);
  }
}

/// Claims the jobs that may run now. Returns their number.
net::awaitable<std::size_t> service_core::claim(std::shared_ptr<service_core> core, queue& q, std::size_t places) {
  std::shared_ptr<admitted> admission;
  // The wait for the limit comes before the claim. So the claim gets the job that is the most important one when the
  // limit grants.
  if (q.options.limit) {
    admission = co_await core->life_.wrap(q.options.limit());
    places = 1;
  }
  std::vector<claimed_job> list;
  std::exception_ptr failed;
  try {
    claim_request r{.queue = q.options.name, .limit = places, .lease = core->options_.lease};
    list = co_await core->store_.claim(std::move(r));
  } catch (...) {
    failed = std::current_exception();
  }
  if (list.empty() && admission != nullptr) admission->unused();
  if (failed) std::rethrow_exception(failed);
  for (claimed_job& c : list) core->take(q, std::move(c), std::exchange(admission, nullptr));
  co_return list.size();
}

void service_core::take(queue& q, claimed_job c, std::shared_ptr<admitted> admission) {
  const auto r = std::make_shared<running_job>(std::move(c), time_, options_.lease);
  const duration span = std::min(q.options.timeout, r->claimed.expires_in);
  r->deadline = saturating_add(r->renewed_at, span);
  {
    const std::lock_guard lock{mutex_};
    running_.push_back(r);
    ++q.taken;
    ++q.counts.claimed;
  }
  try {
    spawn(drive(shared_from_this(), q, r, std::move(admission)));
  } catch (...) {
    let_go(q, r);  // another process gets the job when the job's lease ends
    throw;
  }
  news_->bump();
}

/// Called when the handler of the job has ended. The job then needs no worker, so another job may run.
void service_core::free_place(queue& q, running_job& r) noexcept {
  {
    const std::lock_guard lock{mutex_};
    r.is_reporting = true;
    ++q.reporting;
  }
  news_->bump();
}

void service_core::let_go(queue& q, const running& r) noexcept {
  {
    const std::lock_guard lock{mutex_};
    running_.remove(r);
    --q.taken;
    if (r->is_reporting) --q.reporting;
  }
  news_->bump();
}

net::awaitable<void> service_core::drive(std::shared_ptr<service_core> core, queue& q, running r,
                                         std::shared_ptr<admitted> admission) {
  run_end end;
  try {
    const auto found = core->handlers_.find(r->claimed.kind);
    if (found == core->handlers_.end()) throw std::runtime_error{"no handler for jobs of kind " + r->claimed.kind};
    auto attempt = [core, r, admission, &h = found->second](task_context& t) -> net::awaitable<std::string> {
      r->context = &t;
      job j{*r};
      auto work = admission != nullptr ? admission->run(h(j)) : h(j);
      co_return co_await with_deadline(r->stop.wrap(std::move(work)), r->deadline);
    };
    const task_options o{.priority = r->claimed.priority, .name = r->claimed.kind};
    end.result = co_await q.pool.run(attempt, o);
  } catch (...) {
    end.error = std::current_exception();
  }
  admission.reset();
  core->free_place(q, *r);
  try {
    co_await report_end(core, q, r, std::move(end));
  } catch (...) {
    // If there is no memory to report the end, another process gets the job when the job's lease ends.
    core->health_.failed(store_health::runs, std::current_exception());
  }
  core->let_go(q, r);
  co_await trim(core, q);
}

net::awaitable<void> service_core::report_end(std::shared_ptr<service_core> core, queue& q, running r, run_end end) {
  const auto why = r->why_ended.load();
  end.has_begun = r->context != nullptr;
  end.is_lost = why == running_job::reason::lost;
  end.was_told_to_end = why != running_job::reason::none;
  end.is_service_stopping = core->is_stopping();
  {
    const std::lock_guard lock{r->mutex};
    end.snooze = r->snooze;
  }
  run_report report = report_of(std::move(end), r->claimed.attempt, q.options.retry, core->random());
  if (report.what != run_report::type::nothing) {
    co_await core->tell(q, r, std::move(report));
  } else {
    core->note(q, *r, report, false);
  }
}

/// Reports the end of a run to the store, and repeats the report after a failure. Gives up if the store has stopped, if
/// abandon() was called, or if the lease ends while the service stops.
net::awaitable<void> service_core::tell(queue& q, running r, run_report report) {
  for (std::uint32_t failures = 0;;) {
    std::exception_ptr failed;
    try {
      const verdict v = co_await send(store_, r->claimed.lease, report);
      note(q, *r, report, v == verdict::accepted);
      health_.succeeded(store_health::runs);
      co_return;
    } catch (...) {
      failed = std::current_exception();
    }
    const auto code = code_of(failed);
    health_.failed(store_health::runs, failed);
    if (code == errc::stopped || is_abandoned_) co_return;
    if (code == errc::too_large) {
      report = {.what = run_report::type::fail, .text = text_of(failed), .span = duration::max()};
      continue;
    }
    if (!is_stopping()) {
      co_await pause_after(++failures);
      continue;
    }
    duration pause = options_.store_retry.delay(++failures, random());
    {
      // After the end of the lease another process gets the job, so a later report would be useless.
      const std::lock_guard lock{mutex_};
      const time_point over = saturating_add(r->renewed_at, options_.lease);
      if (time_.now() >= over) co_return;
      pause = std::min(pause, over - time_.now());
    }
    // The report is repeated even while the service stops. The pause before it uses sleep_for(), because pause_after()
    // does not wait while the service stops.
    co_await sleep_for(pause);
  }
}

net::awaitable<void> service_core::trim(std::shared_ptr<service_core> core, queue& q) {
  {
    const std::lock_guard lock{core->mutex_};
    const time_point now = core->time_.now();
    if (now < q.trim_at) co_return;
    q.trim_at = saturating_add(now, trim_every);
  }
  const trim_request r{.queue = q.options.name, .older_than = q.options.keep_ended, .keep = q.options.most_ended};
  if (r.older_than == duration::max() && r.keep == SIZE_MAX) co_return;
  try {
    while (!core->is_stopping()) {
      if (co_await core->store_.trim(r) == 0) break;
    }
  } catch (...) {
    co_return;  // after an error nothing is lost: the next trim deletes the jobs
  }
}

}  // namespace canigo::jobs::detail
