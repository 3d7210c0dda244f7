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
  store_policy policy = {};  ///< for jobs that crash
  /// How long a step waits for a lock that another process holds; 0 or more.
  duration busy_limit = std::chrono::seconds{5};
  /// How often the store looks for changes that other processes could not tell it; more than 0.
  duration poll = std::chrono::seconds{2};
  /// Whether an answer waits for the disk. If not, a loss of power loses the last steps; the end of a process loses
  /// none in either case.
  bool waits_for_disk = true;
  /// The store's clock, for tests: called on its thread. Empty: the system's.
  std::function<instant()> clock = {};
};

/// Jobs in a file of SQLite, which any number of processes of one machine share.
///
///     canigo::jobs::sqlite_store store{io, "jobs.db"};
///
/// The file may be one that the program has for its own tables: those of jobs are called canigo_…. The store has a
/// thread and a connection of its own. All steps that wait are one transaction, so the price of the disk is shared.
///
/// Processes wake each other by datagrams, with sockets in the folder FILE-wake. A process that was killed is noticed
/// by its socket, within `poll`, and its leases end. If sockets are impossible, a change is noticed within `poll`.
///
/// The constructor does not wait for its thread to open the file. If the file can't be opened or used, each call says
/// why, and the next one tries again. An error that leaves open whether the step took place is error::unknown_outcome.
///
/// Not for files on a network file system. Threads: any, all members, at once.
/// Lifetime: the destructor waits for the steps that were handed over. Each takes busy_limit at most.
class sqlite_store final : public detail::local_store {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  sqlite_store(const net::any_io_executor& executor, std::string file, const sqlite_store_options& options);
  // No default argument: g++ 12 destroys one twice if the store is made in an expression with a co_await.
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

  /// Adds a job on a connection of the program, in the transaction that is open there: the job exists if and only if
  /// that transaction is committed. Call wake() after the commit.
  ///
  /// Errors: those of put(). The connection must be to this file, and used by no other thread meanwhile.
  put_answer put_in(sqlite3* connection, const new_job& j);
  /// Tells all processes to look for jobs of which no process was told.
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
