#pragma once

#include "canigo/jobs/detail/local_store.hpp"
#include "canigo/jobs/store.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

struct sqlite3;

namespace canigo::jobs {

struct sqlite_store_options {
  store_policy policy = {};  ///< the policy for jobs that crash
  /// How long a call of the store waits for a lock of another process; 0 or more.
  duration busy_limit = std::chrono::seconds{5};
  /// How often the store checks for changes by other processes that could not send a notification; more than 0.
  duration poll = std::chrono::seconds{2};
  /// Whether a call returns only when its changes are on the disk. If not, a power failure loses the last changes. A
  /// crash of the process loses no change in either case.
  bool waits_for_disk = true;
  /// The store's clock, for tests; called on the store's thread. Empty: the system's clock.
  std::function<instant()> clock = {};
};

/// A store that keeps jobs in an SQLite file, which any number of processes on one machine share.
///
///     canigo::jobs::sqlite_store store{io, "jobs.db"};
///
/// The file may also have tables of the program: the tables of the store begin with canigo_. The store has its own
/// thread and connection. All operations that wait at the same time share one transaction. So they also share the cost
/// of the disk write.
///
/// Processes notify each other by datagrams, with sockets in the folder FILE-wake. If a process is killed, other
/// processes notice that within `poll` by its socket, and end its leases. If sockets can't be used, processes notice
/// changes within `poll`.
///
/// The constructor does not wait until its thread has opened the file. If the file can't be opened or used, each call
/// throws the reason, and the next call tries again. If it is unknown whether an operation took place, the call throws
/// error::unknown_outcome.
///
/// Not for files on a network file system. Threads: any thread may call any member at any time.
/// Lifetime: the destructor waits for all operations that have begun. Each operation takes at most busy_limit.
class sqlite_store final : public detail::local_store {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  sqlite_store(const net::any_io_executor& executor, std::string file, const sqlite_store_options& options);
  // The options have no default argument, because g++ 12 destroys a default argument twice inside a co_await
  // expression.
  sqlite_store(const net::any_io_executor& executor, std::string file);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  sqlite_store(ExecutionContext& context, std::string file, const sqlite_store_options& options)
      : sqlite_store{net::any_io_executor{context.get_executor()}, std::move(file), options} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  sqlite_store(ExecutionContext& context, std::string file)
      : sqlite_store{net::any_io_executor{context.get_executor()}, std::move(file)} {}
  ~sqlite_store() override;

  /// Submits a job over a connection of the program, in the transaction that is open there. So the job exists if and
  /// only if that transaction is committed. Call wake() after the commit.
  ///
  /// Errors: those of put(). The connection must be to this file, and no other thread may use it meanwhile.
  put_answer put_in(sqlite3* connection, const new_job& j);
  /// Makes all processes look for new jobs, such as the jobs that put_in() has submitted.
  void wake() noexcept;

  net::awaitable<std::uint64_t> changed(std::uint64_t seen) override;
  void stop() noexcept override;
  std::string where() const override;
  store_facts facts() const override;

 private:
  class line;
  net::awaitable<void> perform(weight w, step s) override;

  std::unique_ptr<line> line_;
};

}  // namespace canigo::jobs
