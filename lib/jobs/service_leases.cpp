#include "canigo/timeout.hpp"

#include "service_core.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

// The functions of service_core that renew leases. The answer to a renewal also tells the service whether another
// process has changed the job.

namespace canigo::jobs::detail {
namespace {

/// When the store reports a change, the service checks whether its running jobs were cancelled. This is the min time
/// between two such checks.
constexpr duration look_again = std::chrono::seconds{1};

}  // namespace

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
  // the number of changes of the store at the last check for cancelled jobs
  std::uint64_t looked_at = core->store_changes_;
  time_point look_at = time_point::min();  // the next check for cancelled jobs is made at this time or later
  for (;;) {
    {
      const std::lock_guard lock{core->mutex_};
      if (core->is_stopping_ && core->running_.empty()) co_return;
    }
    const time_point now = core->time_.now();
    const std::uint64_t news = core->store_changes_;
    const bool looks = news != looked_at && now >= look_at;
    if (looks) {
      looked_at = news;
      look_at = saturating_add(now, look_again);
    }
    for (running& r : core->to_renew(looks)) core->start_renewal(std::move(r));
    time_point next = core->next_renewal();
    if (core->store_changes_ != looked_at && next != time_point::max()) next = std::min(next, look_at);
    try {
      co_await core->wait(seen, next == time_point::max() ? duration::max() : time_between(core->time_.now(), next));
      continue;
    } catch (...) {
      if (core->is_abandoned_) co_return;
    }
    // the wait failed because there was no memory, so this coroutine waits again after a pause
    co_await core->pause_after(1);
  }
}

/// Starts the renewal of the job's lease. If there is no memory, the renewal is tried again later.
void service_core::start_renewal(running r) {
  try {
    spawn(renew(shared_from_this(), r));
  } catch (...) {
    has_renewed(*r, false, time_.now());
  }
}

void service_core::has_renewed(running_job& r, bool is_good, time_point asked_at) noexcept {
  const std::lock_guard lock{mutex_};
  if (is_good) r.renewed_at = asked_at;
  r.renew_at = saturating_add(time_.now(), is_good ? options_.lease / 3 : options_.lease / 10);
  r.is_renewing = false;
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
    core->health_.succeeded(store_health::runs);
  } catch (...) {
    core->health_.failed(store_health::runs, std::current_exception());
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
  core->has_renewed(*r, answer.has_value(), asked_at);
  core->news_->bump();
}

}  // namespace canigo::jobs::detail
