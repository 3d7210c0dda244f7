#include "service_core.hpp"

#include "canigo/detail/pool/worker_strand.hpp"
#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"
#include "canigo/timeout.hpp"

#include "table.hpp"

#include <asio/co_spawn.hpp>
#include <asio/error.hpp>
#include <asio/prefer.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

namespace canigo::jobs::detail {
namespace {

using canigo::detail::throw_invalid;

/// How often the jobs are counted for stats(). The next count begins at least `count_every` after the beginning of the
/// previous count. If a count takes the time t, the next count begins at least `count_pause` times t after its end.
constexpr duration count_every = std::chrono::seconds{1};
constexpr int count_pause = 10;
/// The min pause after the store has failed. A change that the store reports may end a longer pause early, but not
/// before this time. Otherwise a failing store that often reports changes would be called without any pause.
constexpr duration least_pause = std::chrono::seconds{1};

strand_pool_options pool_options(const queue_options& q) {
  return {.concurrency = q.concurrency,
          .priorities = most_priorities,
          .queue_limit = q.concurrency,
          .restart = q.restart,
          .observer = q.observer};
}

const service_options& checked(const service_options& o) {
  if (o.lease < std::chrono::milliseconds{1}) throw_invalid("service_options.lease", o.lease, "1ms or more");
  if (o.most_store_failures < 1) throw_invalid("service_options.most_store_failures", 0, "1 or more, or unlimited");
  canigo::detail::check(o.store_retry, "service_options.store_retry");
  for (auto q = o.queues.begin(); q != o.queues.end(); ++q) {
    if (q->name.empty() || q->name.size() > most_name) throw_invalid("queue_options.name", q->name, "1 to 255 bytes");
    if (std::any_of(o.queues.begin(), q, [&](const queue_options& other) { return other.name == q->name; })) {
      throw_invalid("queue_options.name", q->name, "one queue of each name");
    }
    if (q->concurrency < 1 || q->concurrency > 100'000) {
      throw_invalid("queue_options.concurrency", q->concurrency, "1 to 100'000");
    }
    if (q->timeout <= duration::zero()) throw_invalid("queue_options.timeout", q->timeout, "more than 0");
    canigo::detail::check(q->retry, "queue_options.retry");
    check(trim_request{.queue = q->name, .older_than = q->keep_ended, .keep = q->most_ended});
  }
  return o;
}

}  // namespace

service_core::queue::queue(const net::any_io_executor& executor, queue_options q)
    : options{std::move(q)}, pool{executor, pool_options(options)} {}

service_core::service_core(const net::any_io_executor& executor, store& s, service_options o)
    : executor_{executor},
      time_{time_source::of(executor)},
      store_{s},
      options_{checked(o)},
      health_{options_.queues.size(), options_.observer},
      news_{std::make_shared<changes>(executor)},
      store_news_{std::make_shared<changes>(executor)},
      not_closed_{executor},
      random_{(std::uint64_t{std::random_device{}()} << 32) | 1U} {
  for (const queue_options& q : options_.queues) {
    queues_.emplace_back(executor, q).claims = store_health::claims + queues_.size() - 1;
  }
  not_closed_.add();
}

void service_core::add(std::string kind, handler h) {
  if (kind.empty() || kind.size() > most_name) throw_invalid("service.handle: kind", kind, "1 to 255 bytes");
  const std::lock_guard lock{mutex_};
  if (has_started_) throw_invalid("service.handle: kind", kind, "handlers are named before start()");
  if (!handlers_.try_emplace(kind, std::move(h)).second) {
    throw_invalid("service.handle: kind", kind, "one handler for each kind");
  }
}

/// Counts a running coroutine; stop() waits until this object is destroyed. The object is in the coroutine's frame,
/// which is destroyed even if Asio has no memory to report the coroutine's end.
class service_core::at_work {
 public:
  explicit at_work(std::shared_ptr<service_core> core) : core_{std::move(core)} {
    const std::lock_guard lock{core_->mutex_};
    ++core_->at_work_;
  }
  at_work(at_work&&) noexcept = default;
  at_work& operator=(at_work&&) = delete;
  ~at_work() {
    if (core_ != nullptr) core_->end_work(1);
  }

 private:
  std::shared_ptr<service_core> core_;
};

net::awaitable<void> service_core::counted(at_work, net::awaitable<void> work) { co_await std::move(work); }

/// Starts the coroutine `work`. stop() waits until the coroutine has ended.
void service_core::spawn(net::awaitable<void> work) {
  // The executor is a worker_strand, because a strand of Asio may accept a function and never run it, if there is no
  // memory to schedule the strand.
  net::co_spawn(canigo::detail::worker_strand::of_no_worker(executor_),
                counted(at_work{shared_from_this()}, std::move(work)),
                [keeps_loop = net::prefer(executor_, net::execution::outstanding_work.tracked)](std::exception_ptr) {});
}

/// Call it when coroutines of the service have ended. `ended`: the number of these coroutines. When the last coroutine
/// of a stopping service has ended, the stop is complete.
void service_core::end_work(std::size_t ended) noexcept {
  {
    const std::lock_guard lock{mutex_};
    at_work_ -= ended;
    if (!is_stopping_ || at_work_ > 0 || std::exchange(is_closed_, true)) return;
  }
  news_->stop();
  store_news_->stop();
  not_closed_.done();
}

void service_core::start() {
  {
    const std::lock_guard lock{mutex_};
    if (has_started_ || is_stopping_) return;
    has_started_ = true;
  }
  listen();
  spawn(open(shared_from_this()));
  for (queue& q : queues_) {
    spawn(serve(shared_from_this(), q));
    spawn(watch(shared_from_this(), q));
  }
  for (const repetition& r : repetitions_) spawn(repeat(shared_from_this(), r));
  spawn(keep_leases(shared_from_this()));
}

/// Starts to listen for changes of the store, unless it listens already.
void service_core::listen() {
  {
    const std::lock_guard lock{mutex_};
    if (is_listening_ || is_stopping_) return;
    is_listening_ = true;
  }
  spawn(listen(shared_from_this()));
}

void service_core::request_stop(stop_mode mode, duration grace, std::exception_ptr cause) {
  {
    const std::lock_guard lock{mutex_};
    if (!is_stopping_.exchange(true)) cause_ = std::move(cause);
  }
  // The stop_mode for a pool is never `drain`, because waiting jobs stay in the store, and not in the pool.
  for (queue& q : queues_) q.pool.request_stop(std::max(mode, stop_mode::finish_running), grace);
  life_.cancel();
  news_->bump();
  end_work(0);
}

void service_core::abandon() noexcept {
  is_abandoned_ = true;
  try {
    request_stop(stop_mode::cancel_all, duration::zero());
  } catch (...) {
    is_stopping_ = true;
  }
  news_->stop();
  store_news_->stop();
}

/// Waits until the pool of a queue has stopped. A pool stops itself if its workers fail too often. Then the service
/// stops, too, with the same error.
net::awaitable<void> service_core::watch(std::shared_ptr<service_core> core, queue& q) {
  for (;;) {
    std::exception_ptr cause;
    try {
      co_await q.pool.closed();
      co_return;
    } catch (...) {
      cause = std::current_exception();
    }
    if (q.pool.is_closed()) core->request_stop(stop_mode::finish_running, duration::max(), cause);
    if (core->is_stopping()) co_return;
    // the wait failed because there was no memory; so this coroutine pauses, and then waits again
    co_await core->pause_after(1);
  }
}

net::awaitable<void> service_core::closed(std::shared_ptr<service_core> core) { co_await core->not_closed_.wait(); }

std::exception_ptr service_core::cause() const {
  const std::lock_guard lock{mutex_};
  return cause_;
}

const strand_pool& service_core::pool(const std::string& name) const {
  for (const queue& q : queues_) {
    if (q.options.name == name) return q.pool;
  }
  throw_invalid("service.pool: queue", name, "a queue of this service");
}

service_stats service_core::stats() {
  service_stats shown;
  bool is_due = false;
  {
    const std::lock_guard lock{mutex_};
    for (const queue& q : queues_) {
      auto& counts = shown.queues.emplace_back(q.counts);
      counts.queue = q.options.name;
      counts.running = q.taken;
    }
    const time_point now = time_.now();
    is_due = has_started_ && !is_stopping_ && now >= count_at_;
    if (is_due) count_at_ = time_point::max();  // no other count of jobs starts until this count has ended
  }
  health_.show(shown);
  store_facts facts = store_.facts();
  shown.store_engine = std::move(facts.engine);
  if (shown.last_error.empty() && facts.trouble) {
    shown.last_error = std::move(facts.trouble_text);
    shown.last_error_code = facts.trouble;
  }
  if (is_due) {
    try {
      spawn(count(shared_from_this()));
    } catch (...) {
      const std::lock_guard lock{mutex_};
      count_at_ = time_point::min();
      throw;
    }
  }
  return shown;
}

/// Makes the store count the jobs of all processes.
net::awaitable<void> service_core::count(std::shared_ptr<service_core> core) {
  const time_point begun_at = core->time_.now();
  std::optional<std::vector<queue_count>> found;
  try {
    found = co_await core->store_.count();
    core->health_.succeeded(store_health::counts);
  } catch (...) {
    core->health_.failed(store_health::counts, std::current_exception());
  }
  const std::lock_guard lock{core->mutex_};
  const time_point now = core->time_.now();
  core->count_at_ = std::max(begun_at + count_every, saturating_add(now, (now - begun_at) * count_pause));
  if (!found) co_return;
  for (queue& q : core->queues_) {
    const auto of_queue = std::ranges::find(*found, q.options.name, &queue_count::queue);
    q.counts.in_store = of_queue == found->end() ? queue_count{.queue = q.options.name} : *of_queue;
  }
}

/// Counts how a run ended, and whether the store has accepted the report.
void service_core::note(queue& q, const running_job& r, const run_report& report, bool has_effect) noexcept {
  using type = run_report::type;
  const std::lock_guard lock{mutex_};
  if (!has_effect || report.what == type::nothing) {
    ++q.counts.lost;
  } else if (report.what == type::complete) {
    ++q.counts.done;
  } else if (report.what == type::snooze) {
    ++q.counts.snoozed;
  } else if (report.what == type::give_back) {
    ++q.counts.given_back;
  } else if (r.claimed.attempt >= r.claimed.max_attempts || report.span == duration::max()) {
    ++q.counts.discarded;
  } else {
    ++q.counts.failed;
  }
}

namespace {

/// Whether the error `code` means that the store stays unusable until a person repairs it.
bool is_for_good(const std::error_code& code) noexcept {
  const error codes[] = {error::cannot_open, error::read_only, error::corrupt, error::newer_schema, error::failed};
  return std::ranges::any_of(codes, [&](error e) { return code == e; });
}

}  // namespace

/// Uses the store once, so that a service without queues also detects whether the store can be used.
net::awaitable<void> service_core::open(std::shared_ptr<service_core> core) {
  for (std::uint32_t failures = 0; !core->is_stopping();) {
    std::exception_ptr failed;
    try {
      (void)co_await core->store_.clock();
      core->health_.succeeded(store_health::opening);
      co_return;
    } catch (...) {
      failed = std::current_exception();
    }
    const auto code = code_of(failed);
    if (core->is_stopping() || code == errc::stopped) co_return;
    core->health_.failed(store_health::opening, failed);
    if (!core->options_.waits_for_store && is_for_good(code)) {
      co_return core->request_stop(stop_mode::finish_running, duration::max(), failed);
    }
    co_await core->pause_after(++failures);
  }
}

net::awaitable<void> service_core::listen(std::shared_ptr<service_core> core) {
  std::uint64_t seen = 0;
  for (std::uint32_t failures = 0; !core->is_stopping();) {
    try {
      seen = co_await core->life_.wrap(core->store_.changed(seen));
      ++core->store_changes_;
      core->store_news_->bump();
      core->news_->bump();
      core->health_.succeeded(store_health::listening);
      failures = 0;
      continue;
    } catch (...) {
      if (core->is_stopping() || code_of(std::current_exception()) == errc::stopped) co_return;
      core->health_.failed(store_health::listening, std::current_exception());
    }
    co_await core->pause_after(++failures);
  }
}

/// Waits until the number of changes differs from `seen`, for at most `most`. Stores the new number in `seen`.
net::awaitable<void> service_core::wait(std::uint64_t& seen, duration most) {
  try {
    seen = co_await with_timeout(changes::after(news_, seen), most);
  } catch (const std::system_error& e) {
    if (e.code() != errc::timed_out) throw;
  }
}

/// Waits before the store is used again. The wait ends early if the service stops. It also ends early if the store
/// reports a change, because the store may work again.
net::awaitable<void> service_core::pause_after(std::uint32_t failures) {
  const duration whole = options_.store_retry.delay(failures, random());
  const duration least = std::min(whole, least_pause);
  const std::uint64_t seen = store_news_->number();
  try {
    co_await life_.wrap(sleep_for(least));
  } catch (const std::system_error&) {
    co_return;  // if the service stops, the pause ends
  }
  if (whole == least) co_return;
  try {
    co_await life_.wrap(with_timeout(changes::after(store_news_, seen), whole - least));
  } catch (...) {
    co_return;  // the pause ends: its time is over, the service stops, or there is no memory to wait
  }
}

net::awaitable<std::string> service_core::result(std::shared_ptr<service_core> core, job_id id) {
  core->listen();
  for (std::uint64_t seen = 0;;) {
    auto info = co_await core->store_.look(id);
    if (!info) throw std::system_error{make_error_code(error::unknown_job), "job " + std::to_string(id)};
    const std::string name = "job " + std::to_string(id) + " of kind " + info->kind;
    const auto last = info->history.empty() ? event{} : info->history.back();
    switch (info->state) {
      case job_state::done:
        co_return std::move(info->result);
      case job_state::cancelled:
        throw std::system_error{make_error_code(error::job_cancelled), name};
      case job_state::dead:
        if (last.what == event::type::crashed) throw std::system_error{make_error_code(error::job_crashed), name};
        if (last.what == event::type::expired) throw std::system_error{make_error_code(error::job_expired), name};
        throw std::system_error{make_error_code(error::job_failed), name + ": " + last.text};
      default:
        seen = co_await changes::after(core->store_news_, seen);
    }
  }
}

net::awaitable<cancel_answer> service_core::cancel(std::shared_ptr<service_core> core, job_id id) {
  const cancel_answer answer = co_await core->store_.cancel(id);
  if (answer != cancel_answer::marked) co_return answer;
  running here;
  {
    const std::lock_guard lock{core->mutex_};
    for (const running& r : core->running_) {
      if (r->claimed.lease.id == id) here = r;
    }
  }
  if (here) here->end(running_job::reason::cancelled);
  co_return answer;
}

}  // namespace canigo::jobs::detail
