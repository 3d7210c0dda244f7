#pragma once

#include "canigo/jobs/job_info.hpp"
#include "canigo/jobs/store.hpp"
#include "canigo/time.hpp"

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::jobs::detail {

/// The rows that a statement has returned, in the binary format.
class postgres_rows {
 public:
  explicit postgres_rows(PGresult* r = nullptr) : result_{r} {}

  PGresult* get() const noexcept { return result_.get(); }
  int size() const noexcept { return ::PQntuples(result_.get()); }
  /// The number of rows that the statement has changed, if the statement returns no rows.
  std::int64_t changed() const;

  bool is_null(int row, int column) const noexcept { return ::PQgetisnull(result_.get(), row, column) != 0; }
  /// Returns the value of a column that has an integer of any width, or a bool.
  std::int64_t number(int row, int column) const noexcept;
  /// Returns an integer of a job's row. Throws error::failed if it is not in the range from `least` to `most`. The
  /// error names the job by its number, which must be in the first column.
  std::int64_t number(int row, int column, std::int64_t least, std::int64_t most) const;
  std::uint32_t count(int row, int column) const {
    return static_cast<std::uint32_t>(number(row, column, 0, INT32_MAX));
  }
  std::string_view view(int row, int column) const noexcept;
  std::string text(int row, int column) const { return std::string{view(row, column)}; }
  instant time(int row, int column) const noexcept;
  std::optional<instant> time_if(int row, int column) const noexcept;

 private:
  struct clear {
    void operator()(PGresult* r) const noexcept { ::PQclear(r); }
  };
  std::unique_ptr<PGresult, clear> result_;
};

using postgres_answers = std::vector<postgres_rows>;

put_answer read_put(const postgres_rows& rows);
/// Returns one answer for each inserted job, in the order in which the jobs were passed to the statement.
std::vector<put_answer> read_put_many(const postgres_rows& rows);
std::vector<claimed_job> read_claimed(const postgres_rows& rows);
job_info read_job(const postgres_rows& rows, int row);
std::vector<queue_count> read_counts(const postgres_rows& rows);

}  // namespace canigo::jobs::detail
