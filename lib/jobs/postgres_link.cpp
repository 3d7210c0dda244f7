#include "postgres_link.hpp"

#include "canigo/jobs/error.hpp"

#include "postgres_schema.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <poll.h>
#include <utility>
#include <vector>

namespace canigo::jobs::detail {
namespace {

using namespace std::chrono_literals;

using clock = std::chrono::steady_clock;

bool is_error(const postgres_rows& rows) noexcept {
  const auto s = ::PQresultStatus(rows.get());
  return s == PGRES_FATAL_ERROR || s == PGRES_BAD_RESPONSE || s == PGRES_NONFATAL_ERROR;
}

std::string in_ms(duration d) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(d).count();
  return std::to_string(std::clamp<std::int64_t>(ms, 1, INT32_MAX));
}

}  // namespace

postgres_link::postgres_link(const postgres_place& place, limits l) : place_{place}, limits_{std::move(l)} {
  connect();
  exec("SET lock_timeout = " + in_ms(limits_.lock));
  // A put is durable when it returns. A server may have been told otherwise; then this connection overrules it.
  exec("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'");
  make_tables(*this, place_.name());
  exec("SET lock_timeout = " + in_ms(limits_.step_lock));
  if (limits_.statement != duration::max()) exec("SET statement_timeout = " + in_ms(limits_.statement));
  exec("SET jit = off");  // it takes longer than any of the statements
  if (limits_.listens) exec("LISTEN canigo_jobs");
  if (::PQenterPipelineMode(connection_.get()) == 0) lost();
  prepare();
  is_ready_ = true;
}

void postgres_link::connect() {
  std::vector<const char*> keys;
  std::vector<const char*> values;
  for (const auto& [key, value] : place_.settings()) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  keys.push_back(nullptr);
  values.push_back(nullptr);
  const time_point end = saturating_add(clock::now(), limits_.connect);
  connection_.reset(::PQconnectStartParams(keys.data(), values.data(), 0));
  if (connection_ == nullptr) throw std::bad_alloc{};
  ::PQsetErrorVerbosity(connection_.get(), PQERRORS_VERBOSE);
  ::PQsetNoticeProcessor(connection_.get(), [](void*, const char*) {}, nullptr);
  for (auto state = PGRES_POLLING_WRITING; state != PGRES_POLLING_OK; state = ::PQconnectPoll(connection_.get())) {
    if (state == PGRES_POLLING_FAILED || ::PQstatus(connection_.get()) == CONNECTION_BAD) {
      throw error_of(place_.name(), connection_.get());
    }
    while (!wait(state == PGRES_POLLING_WRITING, std::min(end, clock::now() + 100ms))) {
      const bool gives_up = limits_.gives_up && limits_.gives_up();
      if (gives_up || clock::now() >= end) throw error_of(place_.name(), "", "the server does not answer");
    }
  }
  ::PQsetErrorVerbosity(connection_.get(), PQERRORS_DEFAULT);
  if (::PQsetnonblocking(connection_.get(), 1) != 0) lost();
}

void postgres_link::prepare() {
  PGconn* c = connection_.get();
  for (std::size_t i = 0; i < postgres_statements; ++i) {
    const auto& text = text_of(static_cast<postgres_statement>(i));
    if (::PQsendPrepare(c, ("canigo" + std::to_string(i)).c_str(), text.c_str(), 0, nullptr) == 0) lost();
  }
  if (::PQpipelineSync(c) == 0) lost();
  std::optional<postgres_error> first;
  for (bool is_flushed = false;;) {
    const postgres_rows answer = next_answer(is_flushed);
    if (answer.get() == nullptr) {
      if (::PQstatus(c) == CONNECTION_BAD) lost();
      continue;
    }
    if (::PQresultStatus(answer.get()) == PGRES_PIPELINE_SYNC) break;
    if (is_error(answer) && !first) first = error_of(place_.name(), answer.get());
  }
  if (first) throw *first;
}

/// Until the socket can be written, or read. Whether it was in time.
bool postgres_link::wait(bool writes, time_point until) {
  pollfd fd{.fd = descriptor(), .events = static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), .revents = 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
  // Where a signal ends the wait, the caller finds out that nothing is there.
  return ::poll(&fd, 1, static_cast<int>(std::clamp<std::int64_t>(ms, 0, 1'000'000))) != 0;
}

bool postgres_link::wait_for_answer(bool writes) {
  if (!is_patient_) return wait(writes, saturating_add(clock::now(), limits_.answer));
  while (!wait(writes, clock::now() + 100ms)) {
    if (limits_.gives_up && limits_.gives_up()) return false;
  }
  return true;
}

/// The next result that libpq has; null after the last one of a statement. Sends what is left to send meanwhile.
postgres_rows postgres_link::next_answer(bool& is_flushed) {
  PGconn* c = connection_.get();
  for (;;) {
    // Where it can't be sent, what is read says why.
    if (!is_flushed) is_flushed = ::PQflush(c) == 0;
    if (::PQisBusy(c) == 0) return postgres_rows{::PQgetResult(c)};
    if (!wait_for_answer(!is_flushed)) {
      lost(is_flushed, is_patient_ ? "the store was closed while its tables were changed"
                                   : "the server has not answered for " + canigo::to_string(limits_.answer));
    }
    if (::PQconsumeInput(c) == 0) lost(is_flushed);
  }
}

postgres_answers postgres_link::run(std::span<const postgres_query* const> queries) {
  PGconn* c = connection_.get();
  for (const postgres_query* q : queries) {
    const auto a = q->args();
    const std::string name = "canigo" + std::to_string(static_cast<int>(q->what));
    if (::PQsendQueryPrepared(c, name.c_str(), static_cast<int>(a.values.size()), a.values.data(), a.lengths.data(),
                              a.formats.data(), 1) == 0) {
      lost();
    }
  }
  if (::PQpipelineSync(c) == 0) lost();
  postgres_answers answers;
  std::optional<postgres_error> refused;
  for (bool is_flushed = false;;) {
    postgres_rows answer{nullptr};
    try {
      answer = next_answer(is_flushed);
    } catch (postgres_lost& e) {
      // An error before the end undoes everything.
      if (refused && e.is_unknown) throw postgres_lost{refused->what(), false};
      throw;
    }
    if (answer.get() == nullptr) {
      if (::PQstatus(c) == CONNECTION_BAD) lost(is_flushed && !refused);
      continue;
    }
    const auto status = ::PQresultStatus(answer.get());
    if (status == PGRES_PIPELINE_SYNC) break;
    if (is_error(answer)) {
      if (!refused) refused = error_of(place_.name(), answer.get());
      // libpq itself makes an error without a SQLSTATE of a connection that has ended.
      if (::PQstatus(c) == CONNECTION_BAD) {
        throw postgres_lost{refused->what(), refused->state().empty() && is_flushed};
      }
    } else if (status != PGRES_PIPELINE_ABORTED) {
      answers.push_back(std::move(answer));
    }
  }
  if (refused) throw *refused;
  return answers;
}

postgres_rows postgres_link::exec(const std::string& sql) {
  PGconn* c = connection_.get();
  if (::PQsendQuery(c, sql.c_str()) == 0) lost();
  postgres_rows last{nullptr};
  std::optional<postgres_error> first;
  for (bool is_flushed = false;;) {
    postgres_rows answer = next_answer(is_flushed);
    if (answer.get() == nullptr) break;
    if (is_error(answer) && !first) first = error_of(place_.name(), answer.get());
    last = std::move(answer);
  }
  if (first) throw *first;
  return last;
}

void postgres_link::exec_patiently(const std::string& sql) {
  is_patient_ = true;
  exec(sql);
  is_patient_ = false;  // after an error the connection is given up
}

void postgres_link::look() {
  if (::PQconsumeInput(connection_.get()) == 0 || ::PQstatus(connection_.get()) == CONNECTION_BAD) lost();
}

bool postgres_link::take_news() noexcept {
  bool has_news = false;
  while (PGnotify* n = ::PQnotifies(connection_.get())) {
    has_news = has_news || n->be_pid != ::PQbackendPID(connection_.get());
    ::PQfreemem(n);
  }
  return has_news;
}

void postgres_link::lost(bool is_unknown, const std::string& why) {
  const std::string_view message = why.empty() ? std::string_view{::PQerrorMessage(connection_.get())} : why;
  // Before that no step was sent.
  throw postgres_lost{error_of(place_.name(), "", message).what(), is_unknown && is_ready_};
}

}  // namespace canigo::jobs::detail
