#pragma once

#include "canigo/time.hpp"

#include "postgres_place.hpp"
#include "postgres_query.hpp"
#include "postgres_rows.hpp"

#include <libpq-fe.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace canigo::jobs::detail {

/// A connection to PostgreSQL, for one thread. It never waits for longer than it is told to.
class postgres_link {
 public:
  struct limits {
    duration connect;                ///< for the connection
    duration answer;                 ///< how long the server may be silent
    duration statement;              ///< how long the server works on a statement; max: as it is set up
    duration lock;                   ///< how long the server waits for a lock while the tables are made
    duration step_lock;              ///< and in a step
    bool listens;                    ///< whether it is told of changes
    std::function<bool()> gives_up;  ///< asked now and then while it connects, or changes tables
  };

  /// Connects, makes the tables, and listens. Throws postgres_error, or std::system_error with error::newer_schema.
  postgres_link(const postgres_place& place, limits l);
  postgres_link(const postgres_link&) = delete;
  postgres_link& operator=(const postgres_link&) = delete;

  /// Carries the statements out in one transaction and one round trip. Throws postgres_error if the server refuses one,
  /// and then none had an effect; or postgres_lost.
  postgres_answers run(std::span<const postgres_query* const> queries);
  /// Carries out statements without arguments, one transaction; the rows of the last one.
  postgres_rows exec(const std::string& sql);
  /// The same for statements that take as long as the tables are large. Only `gives_up` ends the wait for them.
  void exec_patiently(const std::string& sql);

  int descriptor() const noexcept { return ::PQsocket(connection_.get()); }
  /// Reads what the server sent unasked. Throws postgres_lost if the connection has ended.
  void look();
  /// Whether another connection told of a change since the last call.
  bool take_news() noexcept;

 private:
  struct finish {
    void operator()(PGconn* c) const noexcept { ::PQfinish(c); }
  };

  void connect();
  void prepare();
  bool wait(bool writes, time_point until);
  bool wait_for_answer(bool writes);
  postgres_rows next_answer(bool& is_flushed);
  [[noreturn]] void lost(bool is_unknown = false, const std::string& why = {});

  const postgres_place& place_;
  const limits limits_;
  bool is_patient_ = false;
  bool is_ready_ = false;
  std::unique_ptr<PGconn, finish> connection_;
};

}  // namespace canigo::jobs::detail
