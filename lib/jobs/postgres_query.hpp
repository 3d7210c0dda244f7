#pragma once

#include "canigo/jobs/job_info.hpp"
#include "canigo/jobs/store.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::jobs::detail {

/// The statements of the store. They have the same order as their SQL texts in make_texts() in postgres_query.cpp.
enum class postgres_statement : std::uint8_t {
  begin,
  set_up,
  commit,
  unlisten,
  tell,
  tell_and_wait,
  free_key,
  put,
  put_many,
  reap,
  expire,
  claim,
  undo_claim,
  complete,
  complete_many,
  fail,
  snooze,
  give_back,
  extend,
  cancel,
  state_of,
  free_home_key,
  requeue,
  requeue_state,
  remove,
  trim,
  pause,
  next_due,
  now,
  share,
  lock_batch,
  settle_batch,
  look,
  list,
  list_unwell,
  count,
};
inline constexpr std::size_t postgres_statements = static_cast<std::size_t>(postgres_statement::count) + 1;

const std::string& text_of(postgres_statement s);

/// A statement with its arguments in the server's format. The strings to which the query refers must outlive the query.
class postgres_query {
 public:
  explicit postgres_query(postgres_statement s) : what{s} {}

  postgres_query& number(std::int64_t n);
  postgres_query& numbers(const std::vector<std::int64_t>& list);
  /// Adds an argument: the microseconds of `d`, rounded up; null for duration::max().
  postgres_query& span(duration d);
  postgres_query& bytes(std::string_view b);
  postgres_query& bytes_or_none(std::string_view b) { return b.empty() ? none() : bytes(b); }
  postgres_query& none();
  /// Add arrays in the binary format, with one element per entry of the list. The query owns the encoded bytes. A
  /// missing value becomes null.
  postgres_query& number_array(const std::vector<std::optional<std::int64_t>>& list);
  postgres_query& bytea_array(const std::vector<std::string_view>& list);
  postgres_query& text_array(const std::vector<std::optional<std::string_view>>& list);

  /// The arguments in the format of libpq.
  struct arguments {
    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;
  };
  arguments args() const;

  postgres_statement what;

 private:
  struct argument {
    std::optional<std::string_view> bytes = {};  // the bytes of the argument; std::nullopt: `own` contains the bytes
    std::string own = {};                        // the encoded bytes of a number, if the argument is a number
    bool is_null = false;
    bool is_text = false;
  };
  std::vector<argument> args_;
};

/// Whether a lock that blocks a put of one list also blocks a put of the other list. True if both lists contain a job
/// with the same key or, without keys, a job for the same queue.
bool share_a_lock(const std::vector<new_job>& some, const std::vector<new_job>& others) noexcept;
std::vector<postgres_query> put_queries(const new_job& j);
/// Returns one query that stores several new jobs. Precondition: the jobs have no keys, and wait for no batch.
postgres_query put_many_query(const std::vector<const new_job*>& jobs);
/// Returns one query that ends several runs. Precondition: no two of the runs belong to the same job.
postgres_query complete_many_query(const std::vector<lease>& leases, const std::vector<std::string_view>& results);
/// Returns queries for a job that waits for a batch. If that batch has no unfinished job, the queries make the job
/// claimable. Run the queries after all puts of the operation. Empty if the job waits for no batch.
std::vector<postgres_query> settle_queries(const new_job& j);
/// Returns the queries that claim jobs.
///
/// `mark`: a number that is stored with the claimed jobs, so that the claim can be found again if its answer is lost.
/// `commit_wait`: the lock timeout of the commit, in milliseconds, as text; it must outlive the queries.
std::vector<postgres_query> claim_queries(const std::string& queue, const claim_request& r, const store_policy& p,
                                          std::int64_t mark, std::string_view commit_wait);

}  // namespace canigo::jobs::detail
