#include "canigo/jobs/error.hpp"

#include "postgres_line.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <string_view>
#include <vector>

// This file combines several operations into one transaction. A further statement costs the server more time than a
// further row. So all plain puts share one statement, and all ends of runs share another one.

namespace canigo::jobs {
namespace {

using detail::postgres_query;
using detail::postgres_rows;
using what = detail::postgres_statement;

/// The max size of a payload in a shared put, in bytes. A put with a larger payload gets its own statement.
constexpr std::size_t most_bytes_together = std::size_t{64} << 10;
/// The max number of runs that one statement ends. It is small because the server searches all arguments for each row.
constexpr std::size_t most_ends = 100;

bool is_plain(const new_job& j) {
  return j.unique_key.empty() && j.after_batch.empty() && j.payload.size() <= most_bytes_together;
}

}  // namespace

/// A statement that several operations share.
struct postgres_store::line::shared_statement {
  orders members = {};
  std::vector<postgres_query> query = {};  // one query; empty if fewer than two operations could share it
  std::function<void(const orders&, const postgres_rows&)> read = {};

  void mark() {
    for (const auto& o : members) o->is_shared = true;
  }
};

postgres_store::line::shared_statement postgres_store::line::share_puts(const orders& list) {
  shared_statement s;
  std::vector<const new_job*> jobs;
  for (const auto& o : list) {
    if (!o->read_put || !std::ranges::all_of(o->jobs, is_plain)) continue;
    s.members.push_back(o);
    for (const new_job& j : o->jobs) jobs.push_back(&j);
  }
  if (jobs.size() < 2) return {};
  s.query.push_back(detail::put_many_query(jobs));
  s.mark();
  s.read = [](const orders& members, const postgres_rows& rows) {
    auto answers = detail::read_put_many(rows);
    std::span<const put_answer> rest{answers};
    for (const auto& o : members) {
      o->read_put(rest.first(o->jobs.size()));
      rest = rest.subspan(o->jobs.size());
    }
  };
  return s;
}

postgres_store::line::shared_statement postgres_store::line::share_ends(const orders& list) {
  shared_statement s;
  std::set<job_id> ids;
  std::vector<lease> leases;
  std::vector<std::string_view> results;
  for (const auto& o : list) {
    // A shared statement can report only one end of each job. So a second report about the same job gets its own
    // statement after this one.
    if (!o->read_end || leases.size() == most_ends || !ids.insert(o->ends.id).second) continue;
    s.members.push_back(o);
    leases.push_back(o->ends);
    results.emplace_back(o->text);
  }
  if (leases.size() < 2) return {};
  s.query.push_back(detail::complete_many_query(leases, results));
  s.mark();
  s.read = [](const orders& members, const postgres_rows& rows) {
    std::set<job_id> ended;
    for (int i = 0; i < rows.size(); ++i) ended.insert(rows.number(i, 0));
    for (const auto& o : members) o->read_end(ended.contains(o->ends.id) ? verdict::accepted : verdict::superseded);
  };
  return s;
}

/// Carries out all operations in one transaction.
void postgres_store::line::perform(orders& list) {
  std::vector<const detail::postgres_query*> queries;
  const bool waits_for_disk =
      std::ranges::any_of(list, &order::is_durable, [](const auto& o) -> const order& { return *o; });
  bool tells = false;
  // Claims come last in the transaction. Other statements may have to wait a long time for a lock. If such a statement
  // came after a claim, the claimed rows would stay locked during that wait.
  orders claims;
  std::ranges::copy_if(list, std::back_inserter(claims), &order::is_claim,
                       [](const auto& o) -> const order& { return *o; });
  std::erase_if(list, [](const auto& o) { return o->is_claim; });
  list.insert(list.end(), claims.begin(), claims.end());
  for (const auto& o : list) o->is_shared = false;
  const shared_statement shared[] = {share_puts(list), share_ends(list)};
  for (const shared_statement& s : shared) {
    for (const auto& q : s.query) queries.push_back(&q);
  }
  for (const auto& o : list) {
    tells = tells || o->tells;
    if (o->is_shared) continue;
    for (const auto& q : o->queries) queries.push_back(&q);
  }
  const auto tell = detail::postgres_query{detail::postgres_statement::tell_and_wait}.bytes(commit_wait_);
  if (tells) queries.push_back(&tell);
  const auto answers = link_->run(queries, waits_for_disk);
  std::span<const detail::postgres_rows> rest{answers};
  for (const shared_statement& s : shared) {
    if (s.query.empty()) continue;
    s.read(s.members, rest.front());
    rest = rest.subspan(1);
  }
  for (const auto& o : list) {
    if (o->is_shared) continue;
    try {
      o->read(rest.first(o->queries.size()));
    } catch (...) {
      o->error = std::current_exception();
    }
    rest = rest.subspan(o->queries.size());
  }
}

}  // namespace canigo::jobs
