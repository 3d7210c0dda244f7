#include "commands.hpp"
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

using namespace canigo;
using jobs::job_state;

namespace {

/// Returns the reason why a job can't be moved; empty if it can be moved.
std::string_view obstacle(const jobs::job_info& j) {
  if (j.state == job_state::running) return "was left: it runs";
  if (j.state != job_state::waiting) return "was left: it has ended";
  if (!j.batch.empty() || !j.after_batch.empty()) return "was left: it has a batch, or waits for one";
  // A job with a unique key is not moved, because a store does not return how long the key stays unique.
  if (!j.unique_key.empty()) return "was left: it has a key, which is unique where it is";
  return "";
}

/// Returns the time from now until `then`, by the clock of this machine. Returns duration::max(), which means no limit,
/// if `then` is more than 292 years away.
duration time_until(jobs::instant then) {
  using std::chrono::microseconds;
  const auto left = then - std::chrono::floor<microseconds>(std::chrono::system_clock::now());
  if (left > std::chrono::floor<microseconds>(duration::max())) return duration::max();
  return std::max(left, microseconds{1});
}

/// Returns a new job with the same content, for the other queue or store.
jobs::new_job copy_of(const jobs::job_info& j, const options& o) {
  jobs::new_job n;
  n.queue = o.to_queue.empty() ? j.queue : o.to_queue;
  n.kind = j.kind;
  n.payload = j.payload;
  n.priority = j.priority;
  n.at = j.run_at;
  if (j.deadline) n.expires_in = time_until(*j.deadline);
  n.max_attempts = j.max_attempts - std::min(j.attempt, j.max_attempts - 1);
  return n;
}

/// Moves one job in three steps: cancels the job, puts its copy, and then removes the job. So the job never runs twice,
/// and after any failure either the job or its copy exists.
net::awaitable<bool> move_one(jobs::store& from, jobs::store& to, jobs::job_id id, const options& o) {
  const auto j = co_await from.look(id);
  if (!j) co_return told(id, "is unknown", false);
  if (const auto why = obstacle(*j); !why.empty()) co_return told(id, why, false);
  const auto answer = co_await from.cancel(id);
  if (answer == jobs::cancel_answer::marked) co_return told(id, "was left: it began just now, and is cancelled", false);
  if (answer != jobs::cancel_answer::cancelled) co_return told(id, "was left: it has ended", false);
  jobs::new_job copy = copy_of(*j, o);
  jobs::put_answer moved;
  try {
    moved = co_await to.put(std::move(copy));
  } catch (const std::exception& e) {
    throw std::runtime_error{
        fmt::format("job {} is cancelled where it was, and may be in its new place: {}", id, e.what())};
  }
  co_await from.remove(id);
  co_return told(id, fmt::format("is job {} now", moved.id), true);
}

}  // namespace

net::awaitable<bool> move(jobs::store& store, const options& o) {
  std::unique_ptr<jobs::store> other;
  if (!o.to_place.empty()) {
    const auto executor = co_await net::this_coro::executor;
    other = open(static_cast<net::io_context&>(net::query(executor, net::execution::context)), o.to_place);
    co_await other->count();  // throws if the other store can't be used, before any job is changed
  }
  bool all = true;
  for (const jobs::job_id id : o.ids) all &= co_await move_one(store, other ? *other : store, id, o);
  co_return all;
}
