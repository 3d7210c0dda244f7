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

/// A connection to PostgreSQL, for one thread. It never waits for longer than it is told to.
///
/// A proxy may lend it a process of the server for one transaction, and then lend that to another program. So each
/// transaction says what it needs, and leaves no setting behind; only names of statements stay, and LISTEN until it is
/// known to be of no use.
class postgres_link {
 public:
  struct limits {
    duration connect;                ///< the longest time to connect
    duration answer;                 ///< how long the server may be silent
    duration statement;              ///< how long the server works on a statement; max: as it is set up
    duration lock;                   ///< how long the server waits for a lock while the tables are made
    duration step_lock;              ///< the same wait in a step
    bool listens;                    ///< whether it is told of changes
    bool has_names = true;           ///< whether it prepares statements, by name
    std::function<bool()> gives_up;  ///< asked now and then while it connects, or changes tables
  };

  /// Connects, makes the tables, and listens. Throws postgres_error, or std::system_error with error::newer_schema.
  postgres_link(const postgres_place& place, limits l);
  postgres_link(const postgres_link&) = delete;
  postgres_link& operator=(const postgres_link&) = delete;

  /// Carries the statements out in one transaction and one round trip. Throws postgres_error if the server refuses one,
  /// and then none had an effect; or postgres_lost. Without `waits_for_disk` they may be lost in a crash of the server.
  postgres_answers run(std::span<const postgres_query* const> queries, bool waits_for_disk);
  /// Begins a transaction for exec(), and ends it.
  void begin();
  void commit() { exec("COMMIT"); }
  /// Carries out statements without arguments; the rows of the last one, as text.
  postgres_rows exec(const std::string& sql);
  /// Like exec(), for statements that take as long as the tables are large. Only `gives_up` ends the wait for them.
  void exec_patiently(const std::string& sql);

  int descriptor() const noexcept { return ::PQsocket(connection_.get()); }
  /// Reads what the server sent unasked. Throws postgres_lost if the connection has ended.
  void look();
  /// Whether another connection told of a change since the last call.
  bool take_news() noexcept;
  /// Whether it is told of changes; `works` for a connection that does not listen.
  postgres_hearing::state hearing() const noexcept;
  /// The database and its version.
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
  const std::string step_lock_;              // the longest wait for a lock in a step, in milliseconds
  const std::string statement_;              // the time limit of a statement, in milliseconds; empty: the server's
  std::optional<postgres_hearing> hearing_;  // set if it listens
  std::unique_ptr<PGconn, finish> connection_;
};

}  // namespace canigo::jobs::detail
