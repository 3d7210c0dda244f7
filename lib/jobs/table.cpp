#include "table.hpp"

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"

#include <string_view>
#include <system_error>

namespace canigo::jobs::detail {
namespace {

using canigo::detail::throw_invalid;

constexpr std::string_view name_range = "1 to 255 bytes";

bool is_name(const std::string& text) noexcept { return !text.empty() && text.size() <= most_name; }

}  // namespace

void check(const new_job& j) {
  if (!is_name(j.queue)) throw_invalid("new_job.queue", j.queue, name_range);
  if (!is_name(j.kind)) throw_invalid("new_job.kind", j.kind, name_range);
  check_bytes("new_job.payload", j.payload);
  if (j.priority < 0 || j.priority >= most_priorities) {
    throw_invalid("new_job.priority", j.priority, "0 to 15", errc::invalid_priority);
  }
  if (j.delay < duration::zero()) throw_invalid("new_job.delay", j.delay, "0 or more");
  if (j.at) {
    constexpr std::chrono::sys_days least{}, past{std::chrono::year{10000} / 1 / 1};
    if (*j.at < least || *j.at >= past) {
      throw_invalid("new_job.at", j.at->time_since_epoch().count(), "microseconds since 1970, up to the year 9999");
    }
    if (j.delay != duration::zero()) throw_invalid("new_job.delay", j.delay, "0 for a job with new_job.at");
  }
  if (j.batch.size() > most_name) throw_invalid("new_job.batch", j.batch, "0 to 255 bytes");
  if (j.after_batch.size() > most_name) throw_invalid("new_job.after_batch", j.after_batch, "0 to 255 bytes");
  if (!j.after_batch.empty()) {
    if (j.after_batch == j.batch) throw_invalid("new_job.after_batch", j.after_batch, "another batch than its own");
    if (j.at || j.delay != duration::zero()) {
      throw_invalid("new_job.after_batch", j.after_batch, "empty for a job with a delay, or with new_job.at");
    }
  }
  if (j.expires_in <= duration::zero()) throw_invalid("new_job.expires_in", j.expires_in, "more than 0");
  if (j.max_attempts < 1 || j.max_attempts > 1'000'000) {
    throw_invalid("new_job.max_attempts", j.max_attempts, "1 to 1'000'000");
  }
  if (j.unique_key.size() > most_name) throw_invalid("new_job.unique_key", j.unique_key, "0 to 255 bytes");
  if (j.scope > unique_scope::for_a_time) throw_invalid("new_job.scope", static_cast<int>(j.scope), "a unique_scope");
  if (!j.unique_key.empty() && j.scope == unique_scope::for_a_time && j.unique_for <= duration::zero()) {
    throw_invalid("new_job.unique_for", j.unique_for, "more than 0 for unique_scope::for_a_time");
  }
}

void check(const claim_request& r) {
  if (!is_name(r.queue)) throw_invalid("claim_request.queue", r.queue, name_range);
  if (r.limit < 1) throw_invalid("claim_request.limit", r.limit, "1 or more");
  if (r.lease <= duration::zero()) throw_invalid("claim_request.lease", r.lease, "more than 0");
}

void check(const trim_request& r) {
  if (!is_name(r.queue)) throw_invalid("trim_request.queue", r.queue, name_range);
  if (r.older_than < duration::zero()) throw_invalid("trim_request.older_than", r.older_than, "0 or more");
  if (r.keep > 100'000 && r.keep != SIZE_MAX) {
    throw_invalid("trim_request.keep", r.keep, "0 to 100'000, or SIZE_MAX");
  }
  if (r.limit < 1) throw_invalid("trim_request.limit", r.limit, "1 or more");
}

void check(const list_request& r) {
  if (r.queue.size() > most_name) throw_invalid("list_request.queue", r.queue, "0 to 255 bytes");
  if (r.batch.size() > most_name) throw_invalid("list_request.batch", r.batch, "0 to 255 bytes");
  if (r.limit < 1 || r.limit > 1000) throw_invalid("list_request.limit", r.limit, "1 to 1000");
}

void check(const store_policy& p) {
  if (p.most_crashes < 1) throw_invalid("store_policy.most_crashes", p.most_crashes, "1 or more");
  canigo::detail::check(p.after_crash, "store_policy.after_crash");
}

void check_queue(const std::string& queue) {
  if (!is_name(queue)) throw_invalid("store.queue", queue, name_range);
}

void check_retry(duration retry_in) {
  if (retry_in < duration::zero()) throw_invalid("store.retry_in", retry_in, "0 or more");
}

void check_snooze(duration d) {
  if (d < duration::zero()) throw_invalid("store.snooze", d, "0 or more");
}

void check_extension(duration d, const std::optional<std::string>& progress) {
  if (d <= duration::zero()) throw_invalid("store.extend", d, "more than 0");
  if (progress) check_bytes("store.progress", *progress);
}

void check_bytes(std::string_view field, const std::string& bytes) {
  if (bytes.size() > most_bytes) throw_invalid(field, bytes.size(), "0 to 67108864 bytes", errc::too_large);
}

std::int64_t checked(std::int64_t value, std::int64_t least, std::int64_t most, const std::string& row,
                     const std::string& column) {
  if (value >= least && value <= most) return value;
  throw std::system_error{make_error_code(error::failed),
                          row + ": " + column + " is " + std::to_string(value) + " in canigo_job, not " +
                              std::to_string(least) + " to " + std::to_string(most) +
                              "; another program wrote that: put it right, or remove the row"};
}

std::string kept_text(std::string text) {
  text.resize(std::min(text.size(), most_error_text));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

}  // namespace canigo::jobs::detail
