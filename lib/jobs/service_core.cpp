#include "service_core.hpp"

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"
#include "canigo/timeout.hpp"

#include "table.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/error.hpp>
#include <asio/strand.hpp>

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

/// How soon the cancellation of a job is looked for after a change that another process told of.
constexpr duration look_again = std::chrono::seconds{1};
/// How often jobs that have ended are trimmed, while jobs end.
constexpr duration trim_every = std::chrono::minutes{1};

std::error_code code_of(const std::exception_ptr& e) noexcept {
  try {
    std::rethrow_exception(e);
  } catch (const std::system_error& s) {
    return s.code();
  } catch (...) {
    return {};
  }
}

std::string text_of(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const std::exception& x) {
    return x.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

bool is_hopeless(const std::exception_ptr& e) noexcept {
  try {
    std::rethrow_exception(e);
  } catch (const hopeless&) {
    return true;
  } catch (...) {
    return false;
  }
}

strand_pool_options pool_options(const queue_options& q) {
  return {.concurrency = q.concurrency,
          .priorities = most_priorities,
          .queue_limit = q.concurrency,
          .observer = q.observer};
}

const service_options& checked(const service_options& o) {
  if (o.lease < std::chrono::milliseconds{1}) throw_invalid("service_options.lease", o.lease, "1ms or more");
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
      news_{std::make_shared<changes>(executor)},
      work_{executor},
      not_closed_{executor},
      random_{(std::uint64_t{std::random_device{}()} << 32) | 1U} {
  for (const queue_options& q : options_.queues) queues_.emplace_back(executor, q);
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

/// Runs a coroutine that stop() waits for.
void service_core::spawn(net::awaitable<void> work) {
  work_.add();
  try {
    net::co_spawn(net::make_strand(executor_), std::move(work),
                  [self = shared_from_this()](std::exception_ptr) { self->work_.done(); });
  } catch (...) {
    work_.done();
    throw;
  }
}

void service_core::start() {
  {
    const std::lock_guard lock{mutex_};
    if (has_started_ || is_stopping_) return;
    has_started_ = true;
  }
  listen();
  for (queue& q : queues_) spawn(serve(shared_from_this(), q));
  spawn(keep_leases(shared_from_this()));
}

/// Begins to listen to the store, unless it does.
void service_core::listen() {
  {
    const std::lock_guard lock{mutex_};
    if (is_listening_ || is_stopping_) return;
    is_listening_ = true;
  }
  spawn(listen(shared_from_this()));
}

void service_core::request_stop(stop_mode mode, duration grace, std::exception_ptr cause) {
  bool is_first = false;
  {
    const std::lock_guard lock{mutex_};
    is_stopping_ = true;
    is_first = !std::exchange(is_finishing_, true);
    if (is_first) cause_ = std::move(cause);
    if (mode == stop_mode::cancel_all) {
      for (const running& r : running_) r->is_stopping = true;
    }
  }
  // What waits in the store stays there, so there is nothing to drain.
  for (queue& q : queues_) q.pool.request_stop(std::max(mode, stop_mode::finish_running), grace);
  life_.cancel();
  news_->bump();
  if (is_first) net::co_spawn(net::make_strand(executor_), finish(shared_from_this()), net::detached);
}

net::awaitable<void> service_core::finish(std::shared_ptr<service_core> core) {
  co_await core->work_.wait();
  core->news_->stop();
  core->not_closed_.done();
}

void service_core::abandon() noexcept {
  is_abandoned_ = true;
  try {
    request_stop(stop_mode::cancel_all, duration::zero());
  } catch (...) {
    is_stopping_ = true;
  }
  news_->stop();
}

net::awaitable<void> service_core::closed(std::shared_ptr<service_core> core) { co_await core->not_closed_.wait(); }

std::exception_ptr service_core::cause() const {
  const std::lock_guard lock{mutex_};
  return cause_;
}

pool_stats service_core::stats(const std::string& name) const {
  for (const queue& q : queues_) {
    if (q.options.name == name) return q.pool.stats();
  }
  throw_invalid("service.stats: queue", name, "a queue of this service");
}

// ---- what changes -------------------------------------------------------------------------------------------------

net::awaitable<void> service_core::listen(std::shared_ptr<service_core> core) {
  std::uint64_t seen = 0;
  for (std::uint32_t failures = 0; !core->is_stopping();) {
    try {
      seen = co_await core->life_.wrap(core->store_.changed(seen));
      ++core->store_news_;
      core->news_->bump();
      failures = 0;
      continue;
    } catch (const std::system_error& e) {
      if (e.code() == errc::stopped) co_return;
    }
    co_await core->pause_after(++failures);
  }
}

/// Waits for a change after `seen`, for `most` at most.
net::awaitable<void> service_core::wait(std::uint64_t& seen, duration most) {
  try {
    seen = co_await with_timeout(changes::after(news_, seen), most);
  } catch (const std::system_error& e) {
    if (e.code() != errc::timed_out) throw;
  }
}

/// Waits before the store is used again. Ends early if the service stops.
net::awaitable<void> service_core::pause_after(std::uint32_t failures) {
  const std::uint64_t random = random_.fetch_add(0x9E3779B97F4A7C15) * 0x5851F42D4C957F2D;
  try {
    co_await life_.wrap(sleep_for(options_.store_retry.delay(failures, random)));
  } catch (const std::system_error&) {
    co_return;  // it stops
  }
}

// ---- jobs begin ---------------------------------------------------------------------------------------------------

std::size_t service_core::free_places(const queue& q) const {
  const std::lock_guard lock{mutex_};
  return q.options.concurrency - std::min(q.taken, q.options.concurrency);
}

net::awaitable<void> service_core::serve(std::shared_ptr<service_core> core, queue& q) {
  const std::string& name = q.options.name;
  std::uint64_t seen = 0;
  std::shared_ptr<void> admitted;
  bool is_admitted = false;
  for (std::uint32_t failures = 0; !core->is_stopping();) {
    std::exception_ptr failed;
    try {
      std::size_t places = core->free_places(q);
      duration due = duration::max();
      if (places > 0) due = co_await core->store_.next_due(name);
      if (places > 0 && due <= duration::zero()) {
        if (q.options.limit) {
          if (!is_admitted) admitted = co_await core->life_.wrap(q.options.limit());
          is_admitted = true;
          places = 1;
        }
        claim_request r{.queue = name, .limit = places, .lease = core->options_.lease};
        auto list = co_await core->store_.claim(std::move(r));
        failures = 0;
        for (claimed_job& c : list) {
          core->take(q, std::move(c), std::exchange(admitted, nullptr));
          is_admitted = false;
        }
        // A lease or a deadline may have been due, and no job.
        if (!list.empty()) continue;
        due = std::max<duration>(co_await core->store_.next_due(name), std::chrono::milliseconds{1});
      }
      failures = 0;
      co_await core->wait(seen, due);
    } catch (...) {
      failed = std::current_exception();
    }
    if (!failed || core->is_stopping()) continue;
    ++failures;
    const bool is_for_good = code_of(failed) == errc::stopped;
    const std::uint32_t most = core->options_.most_store_failures;
    if (is_for_good || (most != 0 && failures >= most)) {
      core->request_stop(stop_mode::finish_running, duration::max(), failed);
      co_return;
    }
    co_await core->pause_after(failures);
  }
}

void service_core::take(queue& q, claimed_job c, std::shared_ptr<void> admitted) {
  const auto r = std::make_shared<running_job>(std::move(c), time_, options_.lease);
  const duration span = std::min(q.options.timeout, r->claimed.expires_in);
  r->deadline = saturating_add(r->renewed_at, span);
  {
    const std::lock_guard lock{mutex_};
    running_.push_back(r);
    ++q.taken;
  }
  try {
    spawn(drive(shared_from_this(), q, r, std::move(admitted)));
  } catch (...) {
    let_go(q, r);  // its lease runs out
    throw;
  }
  news_->bump();
}

void service_core::let_go(queue& q, const running& r) noexcept {
  {
    const std::lock_guard lock{mutex_};
    running_.remove(r);
    --q.taken;
  }
  news_->bump();
}

// ---- jobs run and end ---------------------------------------------------------------------------------------------

net::awaitable<void> service_core::drive(std::shared_ptr<service_core> core, queue& q, running r,
                                         std::shared_ptr<void> admitted) {
  using reason = running_job::reason;
  std::exception_ptr failed;
  std::string value;
  try {
    const auto found = core->handlers_.find(r->claimed.kind);
    if (found == core->handlers_.end()) throw std::runtime_error{"no handler for jobs of kind " + r->claimed.kind};
    auto attempt = [r, &h = found->second]() -> net::awaitable<std::string> {
      r->has_begun = true;
      job j{*r};
      co_return co_await with_deadline(r->stop.wrap(h(j)), r->deadline);
    };
    const task_options o{.priority = r->claimed.priority, .name = r->claimed.kind};
    value = co_await q.pool.run(attempt, o);
  } catch (...) {
    failed = std::current_exception();
  }
  admitted.reset();
  const lease l = r->claimed.lease;
  store& s = core->store_;
  const auto code = failed ? code_of(failed) : std::error_code{};
  const bool is_by_stop = core->is_stopping() && r->why_ended == reason::none &&
                          (code == errc::stopped || code == net::error::operation_aborted);
  std::optional<duration> snooze;
  {
    const std::lock_guard lock{r->mutex};
    snooze = r->snooze;
  }
  report f;
  if (failed && r->why_ended == reason::lost) {
    f = nullptr;
  } else if (failed && (is_by_stop || !r->has_begun) && code) {
    f = [&s, l] { return s.give_back(l); };
  } else if (failed) {
    const std::uint64_t random = core->random_.fetch_add(0x9E3779B97F4A7C15) * 0x5851F42D4C957F2D;
    const duration retry = is_hopeless(failed) ? duration::max() : q.options.retry.delay(r->claimed.attempt, random);
    f = [&s, l, retry, text = text_of(failed)] { return s.fail(l, text, retry); };
  } else if (snooze) {
    f = [&s, l, d = *snooze] { return s.snooze(l, d); };
  } else {
    f = [&s, l, &value] { return s.complete(l, value); };
  }
  if (f) co_await core->tell(r, std::move(f));
  core->let_go(q, r);
  co_await trim(core, q);
}

/// Tells the store how a run ended, until it knows.
net::awaitable<void> service_core::tell(running r, report f) {
  for (std::uint32_t failures = 0;;) {
    std::exception_ptr failed;
    try {
      co_await f();
      co_return;
    } catch (...) {
      failed = std::current_exception();
    }
    const auto code = code_of(failed);
    if (code == errc::stopped || is_abandoned_) co_return;
    if (code == errc::too_large) {
      const lease l = r->claimed.lease;
      f = [this, l, text = text_of(failed)] { return store_.fail(l, text, duration::max()); };
      continue;
    }
    if (is_stopping()) {
      // Another process gets the job once the lease is over. There is no use in waiting longer.
      const std::lock_guard lock{mutex_};
      if (time_.now() >= saturating_add(r->renewed_at, options_.lease)) co_return;
    }
    // Not pause_after(): it does not wait while the service stops.
    co_await sleep_for(options_.store_retry.delay(++failures, random_.fetch_add(0x9E3779B97F4A7C15)));
  }
}

net::awaitable<void> service_core::trim(std::shared_ptr<service_core> core, queue& q) {
  {
    const std::lock_guard lock{core->mutex_};
    const time_point now = core->time_.now();
    if (core->is_stopping_ || now < saturating_add(core->trimmed_at_, trim_every)) co_return;
    core->trimmed_at_ = now;
  }
  trim_request r{.queue = q.options.name, .older_than = q.options.keep_ended, .keep = q.options.most_ended};
  if (r.older_than == duration::max() && r.keep == SIZE_MAX) co_return;
  try {
    while (co_await core->store_.trim(r) > 0) {
    }
  } catch (const std::system_error&) {
    co_return;  // at another time
  }
}

// ---- leases -------------------------------------------------------------------------------------------------------

time_point service_core::next_renewal() const {
  const std::lock_guard lock{mutex_};
  time_point first = time_point::max();
  for (const running& r : running_) {
    if (!r->is_renewing) first = std::min(first, r->renew_at);
  }
  return first;
}

std::vector<service_core::running> service_core::to_renew(bool all) {
  const std::lock_guard lock{mutex_};
  std::vector<running> list;
  const time_point now = time_.now();
  for (const running& r : running_) {
    if (r->is_renewing || (!all && r->renew_at > now)) continue;
    r->is_renewing = true;
    list.push_back(r);
  }
  return list;
}

net::awaitable<void> service_core::keep_leases(std::shared_ptr<service_core> core) {
  std::uint64_t seen = 0;
  std::uint64_t looked_at = core->store_news_;  // the change of the store after which cancellations were looked for
  time_point look_at = time_point::min();       // and not again before this
  for (;;) {
    {
      const std::lock_guard lock{core->mutex_};
      if (core->is_stopping_ && core->running_.empty()) co_return;
    }
    const time_point now = core->time_.now();
    const std::uint64_t news = core->store_news_;
    const bool looks = news != looked_at && now >= look_at;
    if (looks) {
      looked_at = news;
      look_at = saturating_add(now, look_again);
    }
    for (running& r : core->to_renew(looks)) core->spawn(renew(core, std::move(r)));
    time_point next = core->next_renewal();
    if (core->store_news_ != looked_at && next != time_point::max()) next = std::min(next, look_at);
    try {
      co_await core->wait(seen, next == time_point::max() ? duration::max() : time_between(core->time_.now(), next));
    } catch (const std::system_error&) {
      co_return;  // abandoned
    }
  }
}

net::awaitable<void> service_core::renew(std::shared_ptr<service_core> core, running r) {
  std::optional<std::string> progress;
  {
    const std::lock_guard lock{r->mutex};
    progress.swap(r->progress);
  }
  const time_point asked_at = core->time_.now();
  std::optional<extension> answer;
  try {
    answer = co_await core->store_.extend(r->claimed.lease, core->options_.lease, progress);
  } catch (const std::system_error&) {
    answer.reset();
  }
  if (!answer) {
    const std::lock_guard lock{r->mutex};
    if (!r->progress) r->progress = std::move(progress);
  } else if (answer->verdict == verdict::superseded) {
    r->end(running_job::reason::lost);
  } else if (answer->is_cancelled) {
    r->end(running_job::reason::cancelled);
  } else if (answer->expires_in <= duration::zero()) {
    r->end(running_job::reason::expired);
  }
  {
    const std::lock_guard lock{core->mutex_};
    const time_point now = core->time_.now();
    if (answer) r->renewed_at = asked_at;
    r->renew_at = saturating_add(now, answer ? core->options_.lease / 3 : core->options_.lease / 10);
    r->is_renewing = false;
  }
  core->news_->bump();
}

// ---- what users ask -----------------------------------------------------------------------------------------------

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
        seen = co_await changes::after(core->news_, seen);
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
