#pragma once

#include "canigo/time.hpp"

#include "postgres_hearing.hpp"
#include "postgres_place.hpp"
#include "postgres_query.hpp"
#include "postgres_rows.hpp"

#include <libpq-fe.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace canigo::jobs::detail {

/// A connection to PostgreSQL, used by one thread. Each function except exec_patiently() has a time limit.
///
/// A proxy may lend the connection a server process for one transaction, and then lend that process to another program.
/// So each transaction makes its own settings, which end with it. Only two things remain in the server process: the
/// names of prepared statements, and LISTEN until it is known that no notifications arrive.
class postgres_link {
 public:
  struct limits {
    duration connect;       ///< the max time for connecting
    duration answer;        ///< how long the client waits for the server's answer
    duration statement;     ///< how long the server may take for a statement; max: the server's own limit
    duration lock;          ///< how long a statement may wait for a lock while the tables are created
    duration step_lock;     ///< how long a statement of an operation may wait for a lock before the server ends it
    bool listens;           ///< whether the connection gets notifications of changes
    bool has_names = true;  ///< whether the connection uses named prepared statements
    /// called repeatedly while the connection is made or the tables are changed; if it returns true, the connection
    /// gives up
    std::function<bool()> gives_up;
  };

  /// Connects and creates the tables. If `l.listens` is true, also listens for notifications. Throws postgres_error, or
  /// std::system_error with error::newer_schema.
  postgres_link(const postgres_place& place, limits l);
  postgres_link(const postgres_link&) = delete;
  postgres_link& operator=(const postgres_link&) = delete;

  /// Carries out the statements in one transaction. This takes one round trip, or two without named statements. If the
  /// server refuses one of the statements, none has an effect, and run() throws postgres_error. Throws postgres_lost if
  /// the connection is lost. Without `waits_for_disk`, a crash of the server may undo the statements.
  postgres_answers run(std::span<const postgres_query* const> queries, bool waits_for_disk);
  /// begin() begins a transaction, in which exec() carries out its statements; commit() ends the transaction.
  void begin();
  void commit() { exec("COMMIT"); }
  /// Carries out statements without arguments. Returns the rows of the last one, as text.
  postgres_rows exec(const std::string& sql);
  /// Like exec(), but without a time limit, for statements that take longer with larger tables. The wait for the answer
  /// ends early only if limits::gives_up returns true.
  void exec_patiently(const std::string& sql);

  int descriptor() const noexcept { return ::PQsocket(connection_.get()); }
  /// Reads the data that the server has sent without a request, such as notifications. Throws postgres_lost if the
  /// connection has ended.
  void look();
  /// Returns true if a notification of a change by another connection has come since the last call of take_news().
  bool take_news() noexcept;
  /// Returns whether notifications arrive; returns `works` if the connection does not listen for notifications.
  postgres_hearing::state hearing() const noexcept;
  /// Returns the name and version of the database server.
  std::string engine() const;

 private:
  struct only_connects {};
  postgres_link(const postgres_place& place, limits l, only_connects);
  struct finish {
    void operator()(PGconn* c) const noexcept { ::PQfinish(c); }
  };

  void connect();
  void listen();
  void prepare();
  postgres_query set_up(bool waits_for_disk) const;
  void send(const postgres_query& q, bool has_name);
  void begin_alone();
  void roll_back();
  bool wait(bool writes, time_point until);
  bool wait_for_answer(bool writes);
  postgres_rows next_answer(bool& is_flushed);
  [[noreturn]] void lost(bool is_unknown = false, const std::string& why = {});

  const postgres_place& place_;
  const limits limits_;
  bool is_patient_ = false;
  bool is_ready_ = false;
  const std::string step_lock_;              // the longest wait for a lock in an operation, in milliseconds
  const std::string statement_;              // the time limit of a statement, in milliseconds; empty: the server's own
  std::optional<postgres_hearing> hearing_;  // whether notifications arrive; set if the connection listens
  std::unique_ptr<PGconn, finish> connection_;
};

}  // namespace canigo::jobs::detail
