#pragma once

#include "canigo/jobs/job_info.hpp"
#include "canigo/jobs/store.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace canigo::jobs::detail {

/// One claim handles at most this number of expired leases, and at most this number of passed deadlines. So a claim is
/// quick even if very many leases have expired, or very many deadlines have passed.
inline constexpr std::size_t reap_limit = 100;

/// The operations of jobs::store, but without waiting. The caller passes the present time as `now`.
///
/// The caller has checked the arguments. If an operation throws, either it has changed nothing, or the caller undoes
/// the changes.
class table {
 public:
  table(const table&) = delete;
  table& operator=(const table&) = delete;
  virtual ~table() = default;

  virtual std::vector<put_answer> put_all(const std::vector<new_job>& list, instant now) = 0;
  virtual std::vector<claimed_job> claim(const claim_request& r, instant now) = 0;
  virtual verdict complete(lease l, const std::string& result, instant now) = 0;
  virtual verdict fail(lease l, const std::string& text, duration retry_in, instant now) = 0;
  virtual verdict snooze(lease l, duration d, instant now) = 0;
  virtual verdict give_back(lease l, instant now) = 0;
  virtual extension extend(lease l, duration d, const std::optional<std::string>& progress, instant now) = 0;
  virtual cancel_answer cancel(job_id id, instant now) = 0;
  virtual requeue_answer requeue(job_id id, instant now) = 0;
  virtual remove_answer remove(job_id id, instant now) = 0;
  virtual std::size_t trim(const trim_request& r, instant now) = 0;
  virtual void pause(const std::string& queue, bool is_paused, instant now) = 0;
  virtual instant next_due(const std::string& queue) = 0;
  virtual std::optional<job_info> look(job_id id) = 0;
  virtual std::vector<job_info> list(const list_request& r) = 0;
  virtual std::vector<queue_count> count(instant now) = 0;

  /// Whether, since the last call of take_news(), an operation has made a change for which other callers may wait.
  bool take_news() noexcept {
    const bool had = has_news_;
    has_news_ = false;
    return had;
  }

 protected:
  table() = default;
  void note_news() noexcept { has_news_ = true; }

 private:
  bool has_news_ = false;
};

/// Returns `now` plus `d`, rounded up to microseconds, and at most instant::max().
inline instant later(instant now, duration d) noexcept {
  const auto span = std::chrono::ceil<std::chrono::microseconds>(d);
  return d == duration::max() || now > instant::max() - span ? instant::max() : now + span;
}

/// Returns when a new job can be claimed; instant::max() if it waits for a batch.
inline instant due_of(const new_job& j, instant now) noexcept {
  if (!j.after_batch.empty()) return instant::max();
  return j.at ? *j.at : later(now, j.delay);
}

/// Returns the time from `now` to `then`: negative if `then` has passed; max if `then` is instant::max().
inline duration until(instant now, instant then) noexcept {
  if (then == instant::max()) return duration::max();
  using us = std::chrono::microseconds;
  constexpr auto most = std::chrono::duration_cast<us>(duration::max());
  std::int64_t span = 0;
  const bool is_long = __builtin_sub_overflow(then.time_since_epoch().count(), now.time_since_epoch().count(), &span);
  if (is_long || us{span} > most || us{span} < -most) return then > now ? duration::max() : -duration::max();
  return us{span};
}

/// The SQL condition that the numbers of a job are valid. A claim takes only such jobs. A row that another program has
/// written may violate the condition. Without the condition, such a row would block the claims of other jobs.
inline const std::string is_sound =
    "token BETWEEN 0 AND 9223372036854775806 AND attempt BETWEEN 0 AND 2147483646 AND "
    "max_attempts BETWEEN 0 AND 2147483647 AND crashes BETWEEN 0 AND 2147483647 AND snoozes BETWEEN 0 AND 2147483647";

/// Returns a value of a row. Throws error::failed if it is not in [`least`, `most`]; the text names the row, the column
/// and the range.
std::int64_t checked(std::int64_t value, std::int64_t least, std::int64_t most, const std::string& row,
                     const std::string& column);

/// The following functions throw std::system_error if an argument is out of range. The error text names the field, the
/// value and the range.
void check(const new_job& j);
void check(const claim_request& r);
void check(const trim_request& r);
void check(const list_request& r);
void check(const store_policy& p);
void check_queue(const std::string& queue);
void check_retry(duration retry_in);
void check_snooze(duration d);
void check_extension(duration d, const std::optional<std::string>& progress);
void check_bytes(std::string_view field, const std::string& bytes);

/// Returns the text of a failure in its stored form: shortened, and without line breaks.
std::string kept_text(std::string text);

}  // namespace canigo::jobs::detail
