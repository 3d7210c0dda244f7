#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"
#include "canigo/timeout.hpp"

#include "service_core.hpp"
#include "table.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

// The functions of service_core that put jobs at the times of a schedule.

namespace canigo::jobs::detail {
namespace {

using canigo::detail::throw_invalid;

constexpr std::size_t most_name_of_schedule = 200;
/// Each time of a schedule has a unique key, which stays reserved for this long after that time. So a process that was
/// suspended for a shorter time can't put the job of that time into the store a second time.
constexpr duration key_stays = std::chrono::hours{24};
/// The longest sleep before the store's clock is read again. The clock may have been set meanwhile.
constexpr duration look_at_clock = std::chrono::hours{1};

/// Returns the unique key for one time of a schedule: the time in UTC, and the schedule's name.
std::string key_of(const std::string& name, instant at) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{std::chrono::floor<std::chrono::seconds>(at - day)};
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text + name;
}

}  // namespace

void service_core::repeat(new_job j, schedule when) {
  std::string name = j.unique_key.empty() ? j.kind : std::exchange(j.unique_key, {});
  if (name.size() > most_name_of_schedule) throw_invalid("service.repeat: name", name, "1 to 200 bytes");
  if (j.delay != duration::zero()) throw_invalid("service.repeat: delay", j.delay, "0: the schedule has the times");
  if (!j.batch.empty()) throw_invalid("service.repeat: batch", j.batch, "empty");
  if (!j.after_batch.empty()) throw_invalid("service.repeat: after_batch", j.after_batch, "empty");
  check(j);
  const std::lock_guard lock{mutex_};
  if (has_started_) throw_invalid("service.repeat: name", name, "schedules are named before start()");
  if (std::ranges::find(repetitions_, name, &repetition::name) != repetitions_.end()) {
    throw_invalid("service.repeat: name", name, "one schedule of each name");
  }
  repetitions_.push_back({std::move(name), std::move(j), std::move(when)});
}

/// Repeats two steps until the service stops: puts the job for the next time of the schedule into the store, and sleeps
/// until that time, but at most an hour. The job waits in the store until its time.
net::awaitable<void> service_core::repeat(std::shared_ptr<service_core> core, const repetition& r) {
  for (std::uint32_t failures = 0; !core->is_stopping();) {
    std::exception_ptr failed;
    try {
      const instant now = co_await core->store_.clock();
      const instant at = r.when.next_after(now);
      if (at == instant::max()) co_return;
      const duration left = until(now, at);
      new_job j = r.job;
      j.at = at;
      j.unique_key = key_of(r.name, at);
      j.scope = unique_scope::for_a_time;
      j.unique_for = left + key_stays;
      j.expires_in = std::min(j.expires_in, duration::max() - left) + left;
      co_await core->store_.put(std::move(j));
      core->health_.succeeded(store_health::schedules);
      failures = 0;
      co_await core->life_.wrap(sleep_for(std::clamp<duration>(left, std::chrono::milliseconds{1}, look_at_clock)));
      continue;
    } catch (...) {
      failed = std::current_exception();
    }
    if (core->is_stopping()) co_return;
    core->health_.failed(store_health::schedules, failed);
    if (code_of(failed) == errc::stopped) co_return;
    co_await core->pause_after(++failures);
  }
}

}  // namespace canigo::jobs::detail
