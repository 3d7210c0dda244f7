#include "postgres_link.hpp"

#include "canigo/jobs/error.hpp"

#include "number_text.hpp"
#include "postgres_schema.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <poll.h>
#include <random>
#include <system_error>
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

/// Returns the name of a prepared statement. The name is a hash of the statement's text, because a server process that
/// a proxy lends may contain statements of another version of this library.
std::string name_of(postgres_statement s) {
  std::uint64_t hash = 0xcbf29ce484222325;  // the offset basis of FNV-1a
  for (const char c : text_of(s)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return "canigo" + std::to_string(static_cast<int>(s)) + "_" + std::to_string(hash);
}

const std::string& cached_name_of(postgres_statement s) {
  static const auto names = [] {
    std::array<std::string, postgres_statements> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = name_of(static_cast<postgres_statement>(i));
    return all;
  }();
  return names[static_cast<std::size_t>(s)];
}

std::string random_text() {
  std::random_device random;
  return "probe " + std::to_string(random()) + " " + std::to_string(random());
}

/// The time limit for a test of whether notifications arrive.
constexpr duration probe_limit = 1s;

}  // namespace

postgres_link::postgres_link(const postgres_place& place, limits l)
    : place_{place},
      limits_{std::move(l)},
      step_lock_{in_ms(limits_.step_lock)},
      statement_{limits_.statement == duration::max() ? "" : in_ms(limits_.statement)} {
  connect();
  make_tables(*this, place_.name());
  if (limits_.listens) listen();
  if (::PQenterPipelineMode(connection_.get()) == 0) lost();
  if (limits_.has_names) prepare();
  is_ready_ = true;
}

postgres_link::postgres_link(const postgres_place& place, limits l, only_connects)
    : place_{place}, limits_{std::move(l)} {
  connect();
}

void postgres_link::begin() {
  exec("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = " + in_ms(limits_.lock));
}

void postgres_link::listen() {
  // Both statements are in one transaction, so a proxy sends both to the same server process.
  const postgres_rows rows = exec("LISTEN canigo_jobs; SELECT pg_backend_pid()");
  std::string_view text = rows.view(0, 0);
  int pid = 0;
  take_number(text, pid);
  hearing_.emplace(::PQbackendPID(connection_.get()), pid, random_text());
  if (!hearing_->needs_probe()) return;
  limits l = limits_;
  l.connect = std::min(l.connect, probe_limit);
  l.answer = std::min(l.answer, probe_limit);
  try {
    postgres_link other{place_, std::move(l), only_connects{}};
    other.exec("SELECT pg_notify('canigo_jobs', '" + hearing_->probe() + "')");
    hearing_->has_sent(clock::now());
  } catch (const std::system_error&) {
    return;  // the proxy has refused a second connection, so it stays unknown whether notifications arrive
  }
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
  using s = postgres_statement;
  PGconn* c = connection_.get();
  // Preparing a statement locks its tables. set_up() limits the wait for these locks, as it does for an operation.
  send(postgres_query{s::begin}, false);
  send(set_up(false), false);
  for (std::size_t i = 0; i < postgres_statements; ++i) {
    const auto statement = static_cast<s>(i);
    if (::PQsendPrepare(c, cached_name_of(statement).c_str(), text_of(statement).c_str(), 0, nullptr) == 0) lost();
  }
  send(postgres_query{s::commit}, false);
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

/// Waits until the socket is ready for reading or, if `writes` is true, for writing. Returns false if the socket was
/// not ready before `until`.
bool postgres_link::wait(bool writes, time_point until) {
  pollfd fd{.fd = descriptor(), .events = static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), .revents = 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
  // If a signal ends the wait early, this function returns true, and the caller finds that nothing has arrived.
  return ::poll(&fd, 1, static_cast<int>(std::clamp<std::int64_t>(ms, 0, 1'000'000))) != 0;
}

bool postgres_link::wait_for_answer(bool writes) {
  if (!is_patient_) return wait(writes, saturating_add(clock::now(), limits_.answer));
  while (!wait(writes, clock::now() + 100ms)) {
    if (limits_.gives_up && limits_.gives_up()) return false;
  }
  return true;
}

/// Returns libpq's next result; null after the last result of a statement. While it waits for the result, this function
/// sends the rest of the query.
postgres_rows postgres_link::next_answer(bool& is_flushed) {
  PGconn* c = connection_.get();
  for (;;) {
    // If sending fails, the loop goes on to read, because the bytes that the server has sent contain the reason.
    if (!is_flushed) is_flushed = ::PQflush(c) == 0;
    if (::PQisBusy(c) == 0) return postgres_rows{::PQgetResult(c)};
    if (!wait_for_answer(!is_flushed)) {
      lost(is_flushed, is_patient_ ? "the store was closed while its tables were changed"
                                   : "the server has not answered for " + canigo::to_string(limits_.answer));
    }
    if (::PQconsumeInput(c) == 0) lost(is_flushed);
  }
}

/// Returns the first statement of each transaction, which sets the options of the transaction. `waits_for_disk`:
/// whether the commit waits until the data is on disk.
postgres_query postgres_link::set_up(bool waits_for_disk) const {
  postgres_query q{postgres_statement::set_up};
  q.bytes(step_lock_).bytes_or_none(statement_).number(waits_for_disk ? 1 : 0);
  return q;
}

void postgres_link::send(const postgres_query& q, bool has_name) {
  const auto a = q.args();
  const int size = static_cast<int>(a.values.size());
  PGconn* c = connection_.get();
  const int is_sent = has_name ? ::PQsendQueryPrepared(c, cached_name_of(q.what).c_str(), size, a.values.data(),
                                                       a.lengths.data(), a.formats.data(), 1)
                               : ::PQsendQueryParams(c, text_of(q.what).c_str(), size, nullptr, a.values.data(),
                                                     a.lengths.data(), a.formats.data(), 1);
  if (is_sent == 0) lost();
}

postgres_answers postgres_link::run(std::span<const postgres_query* const> queries, bool waits_for_disk) {
  using s = postgres_statement;
  PGconn* c = connection_.get();
  const bool is_lent = hearing() == postgres_hearing::state::lent;
  const auto add = [this](const postgres_query& q) { send(q, limits_.has_names); };
  if (limits_.has_names) {
    add(postgres_query{s::begin});
  } else {
    begin_alone();
  }
  add(set_up(waits_for_disk));
  for (const postgres_query* q : queries) add(*q);
  if (is_lent) add(postgres_query{s::unlisten});
  add(postgres_query{s::commit});
  if (::PQpipelineSync(c) == 0) lost();
  postgres_answers answers;
  std::optional<postgres_error> refused;
  for (bool is_flushed = false;;) {
    postgres_rows answer{nullptr};
    try {
      answer = next_answer(is_flushed);
    } catch (postgres_lost& e) {
      // If the server had refused a statement before the connection broke, the transaction has no effect.
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
      // If the connection has ended, libpq itself makes the error, without a SQLSTATE. An error with a SQLSTATE comes
      // from the server, so the operation was refused and not carried out.
      if (::PQstatus(c) == CONNECTION_BAD) {
        throw postgres_lost{refused->what(), refused->state().empty() && is_flushed};
      }
    } else if (status != PGRES_PIPELINE_ABORTED) {
      answers.push_back(std::move(answer));
    }
  }
  if (::PQtransactionStatus(c) != PQTRANS_IDLE) {
    try {
      roll_back();
    } catch (const postgres_lost&) {
      // If the server has refused a statement, the transaction can't have been committed, so no statement has an
      // effect.
      if (refused) throw postgres_lost{refused->what(), false};
      throw;
    }
  }
  if (refused) throw *refused;
  const std::ptrdiff_t before = limits_.has_names ? 2 : 1;
  if (hearing_) hearing_->note_process(static_cast<int>(answers[static_cast<std::size_t>(before - 1)].number(0, 0)));
  answers.erase(answers.begin(), answers.begin() + before);
  answers.resize(answers.size() - (is_lent ? 2 : 1));
  return answers;
}

/// Sends BEGIN in its own message, and waits for the answer. If all clients share one session, as in PGlite, the server
/// may otherwise mix the statements of two clients before the transaction is open.
void postgres_link::begin_alone() {
  PGconn* c = connection_.get();
  if (::PQexitPipelineMode(c) == 0) lost();
  std::exception_ptr refused;
  try {
    exec(text_of(postgres_statement::begin));
  } catch (const postgres_error&) {
    refused = std::current_exception();
  }
  if (::PQenterPipelineMode(c) == 0) lost();
  if (refused) std::rethrow_exception(refused);
}

/// Ends a transaction in which the server has refused a statement.
void postgres_link::roll_back() {
  PGconn* c = connection_.get();
  if (::PQsendQueryParams(c, "ROLLBACK", 0, nullptr, nullptr, nullptr, nullptr, 1) == 0) lost();
  if (::PQpipelineSync(c) == 0) lost();
  for (bool is_flushed = false;;) {
    const postgres_rows answer = next_answer(is_flushed);
    if (answer.get() == nullptr ? ::PQstatus(c) == CONNECTION_BAD : is_error(answer)) lost();
    if (::PQresultStatus(answer.get()) == PGRES_PIPELINE_SYNC) return;
  }
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
  is_patient_ = false;  // not reset after an error, because the connection is closed then
}

void postgres_link::look() {
  if (::PQconsumeInput(connection_.get()) == 0 || ::PQstatus(connection_.get()) == CONNECTION_BAD) lost();
}

postgres_hearing::state postgres_link::hearing() const noexcept {
  return hearing_ ? hearing_->now() : postgres_hearing::state::works;
}

std::string postgres_link::engine() const {
  const char* version = ::PQparameterStatus(connection_.get(), "server_version");
  return version == nullptr ? "PostgreSQL" : std::string{"PostgreSQL "} + version;
}

bool postgres_link::take_news() noexcept {
  bool has_news = false;
  while (PGnotify* n = ::PQnotifies(connection_.get())) {
    has_news = (hearing_ && hearing_->hear(n->be_pid, n->extra)) || has_news;
    ::PQfreemem(n);
  }
  if (hearing_) hearing_->judge(clock::now());
  return has_news;
}

void postgres_link::lost(bool is_unknown, const std::string& why) {
  const std::string_view message = why.empty() ? std::string_view{::PQerrorMessage(connection_.get())} : why;
  // Before the connection is ready, no operation was sent. So the outcome is known: no operation was carried out.
  throw postgres_lost{error_of(place_.name(), "", message).what(), is_unknown && is_ready_};
}

}  // namespace canigo::jobs::detail
