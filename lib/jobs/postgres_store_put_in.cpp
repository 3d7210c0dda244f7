#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"
#include "canigo/jobs/postgres_store.hpp"

#include "postgres_line.hpp"
#include "table.hpp"

#include <string>
#include <string_view>
#include <utility>

// Puts a job into the store through a database connection of the user's program, as a part of the transaction on that
// connection.

namespace canigo::jobs {
namespace {

using detail::postgres_query;
using detail::postgres_rows;
using what = detail::postgres_statement;

class session {
 public:
  session(PGconn* connection, const std::string& place) : connection_{connection}, place_{place} {}

  /// Returns the isolation level if the transaction keeps seeing the state of its beginning; empty if each statement
  /// sees the current state.
  std::string old_view() {
    if (::PQtransactionStatus(connection_) != PQTRANS_INTRANS) return {};
    std::string level = checked(::PQexec(connection_, "SHOW transaction_isolation")).text(0, 0);
    return level.starts_with("read ") ? std::string{} : level;
  }

  postgres_rows run(const postgres_query& q) {
    const auto a = q.args();
    return checked(::PQexecParams(connection_, detail::text_of(q.what).c_str(), static_cast<int>(a.values.size()),
                                  nullptr, a.values.data(), a.lengths.data(), a.formats.data(), 1));
  }

  /// Whether the job still has the state that this transaction sees. This check keeps no lock on the job.
  bool is_still(job_id id) {
    checked(::PQexec(connection_, "SAVEPOINT canigo_put"));
    postgres_query q{what::share};
    q.number(id);
    bool is_same = true;
    try {
      is_same = run(q).size() > 0;
    } catch (const detail::postgres_error& e) {
      is_same = false;
      if (!e.is_conflict() && e.state() != "55P03") throw;
    }
    checked(::PQexec(connection_, "ROLLBACK TO SAVEPOINT canigo_put"));
    checked(::PQexec(connection_, "RELEASE SAVEPOINT canigo_put"));
    return is_same;
  }

 private:
  postgres_rows checked(PGresult* r) const {
    postgres_rows answer{r};
    const auto status = ::PQresultStatus(r);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return answer;
    if (r == nullptr || ::PQstatus(connection_) == CONNECTION_BAD) {
      throw detail::error_of(place_, "", ::PQerrorMessage(connection_));
    }
    throw detail::error_of(place_, r);
  }

  PGconn* connection_;
  const std::string& place_;
};

}  // namespace

put_answer postgres_store::put_in(pg_conn* connection, const new_job& j) {
  detail::check(j);
  session s{connection, line_->where()};
  const bool depends_on_others = !j.unique_key.empty() || !j.after_batch.empty();
  const std::string old_view = depends_on_others ? s.old_view() : std::string{};
  if (!old_view.empty() && !j.after_batch.empty()) {
    canigo::detail::throw_invalid("new_job.after_batch", j.after_batch,
                                  "in a READ COMMITTED transaction, or after the commit; this one is " + old_view +
                                      ", and may not see that the batch has ended");
  }
  auto queries = detail::put_queries(j);
  for (auto& q : detail::settle_queries(j)) queries.push_back(std::move(q));
  queries.emplace_back(what::tell);
  postgres_rows rows;
  for (const auto& q : queries) {
    postgres_rows answer = s.run(q);
    if (q.what == what::put) rows = std::move(answer);
  }
  const put_answer put = detail::read_put(rows);
  if (!old_view.empty() && !put.is_new && !s.is_still(put.id)) {
    throw detail::error_of(line_->where(), "40001",
                           "the transaction is " + old_view + ", and job " + std::to_string(put.id) +
                               ", which holds the key, has changed since it began or is being changed");
  }
  return put;
}

}  // namespace canigo::jobs
