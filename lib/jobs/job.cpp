#include "canigo/jobs/job.hpp"

#include "canigo/error.hpp"

#include "running_job.hpp"
#include "table.hpp"

#include <mutex>

namespace canigo::jobs {

job_id job::id() const noexcept { return running_->claimed.lease.id; }

const std::string& job::queue() const noexcept { return running_->claimed.queue; }

const std::string& job::kind() const noexcept { return running_->claimed.kind; }

const std::string& job::payload() const noexcept { return running_->claimed.payload; }

std::uint32_t job::attempt() const noexcept { return running_->claimed.attempt; }

std::uint32_t job::max_attempts() const noexcept { return running_->claimed.max_attempts; }

std::uint32_t job::crashes() const noexcept { return running_->claimed.crashes; }

jobs::lease job::lease() const noexcept { return running_->claimed.lease; }

time_point job::deadline() const noexcept { return running_->deadline; }

bool job::stop_requested() const noexcept {
  return running_->why_ended != detail::running_job::reason::none || running_->time.now() >= running_->deadline ||
         running_->context.load()->stop_requested();
}

void job::snooze(duration d) {
  if (d < duration::zero()) canigo::detail::throw_invalid("job.snooze", d, "0 or more");
  const std::lock_guard lock{running_->mutex};
  running_->snooze = d;
}

void job::progress(std::string text) {
  detail::check_bytes("job.progress", text);
  const std::lock_guard lock{running_->mutex};
  running_->progress = std::move(text);
}

}  // namespace canigo::jobs
