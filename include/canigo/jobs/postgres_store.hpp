#pragma once

#include "canigo/jobs/store.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct pg_conn;

namespace canigo::jobs {

struct postgres_store_options {
  store_policy policy = {};  ///< the policy for jobs that crash
  /// How long a call of the store waits for a lock of another connection; 1 ms or more. Other calls continue meanwhile.
  duration lock_limit = std::chrono::seconds{5};
  /// How long a call of the store waits for a server that can't be reached, or that is starting; 0 or more.
  duration reconnect_limit = std::chrono::seconds{5};
  /// How long a call of the store waits for an answer of the server; more than 0. After that the connection is closed.
  /// count() and list() may take this long, too; after that they end with error::locked.
  duration answer_limit = std::chrono::seconds{30};
  /// The time after which a caller of changed() is woken even without a known change; more than 0.
  duration poll = std::chrono::seconds{30};
};

/// A store that keeps jobs in a database of PostgreSQL 12 or later, which processes of many machines share.
///
///     canigo::jobs::postgres_store store{io, "postgresql://shop@db.example.org/shop"};
///
/// The database may also have tables of the program: the tables of the store begin with canigo_, and are in the first
/// schema of the search path. All times are those of the server. The store has its own thread and connection. All
/// operations that wait for this thread at the same time share one transaction and one round trip. NOTIFY tells other
/// processes of changes. count() and list(), which may read much, use a second thread and connection, created for the
/// first such call.
///
/// The constructor does not wait for the connection. While the server starts or can't be reached, calls wait for
/// `reconnect_limit`. They fail immediately for a permanent cause: a wrong password, a missing database, a missing
/// access right, or a read-only server. If the connection breaks before the server has confirmed a write, the call
/// throws error::unknown_outcome; claims and reads are repeated instead.
///
/// Names of queues and kinds must be UTF-8 without NUL. Each transaction of the store is READ COMMITTED, whatever the
/// server's default is, and changes no setting of the session. So a proxy may share connections between transactions,
/// such as PgBouncer in transaction mode. Such a proxy passes no notifications on. In that case facts() reports the
/// problem, and the store checks for jobs every second.
///
/// Threads: any thread may call any member at any time.
/// Lifetime: the destructor waits for all operations that have begun. The limits in the options bound the duration of
/// each operation.
class postgres_store final : public store {
 public:
  /// `url` is a URL of PostgreSQL, or a string such as "host=/run/postgresql dbname=shop". Missing parts come from the
  /// environment, such as PGHOST and PGPASSWORD, or from the password file.
  ///
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range, but never the URL.
  postgres_store(const net::any_io_executor& executor, const std::string& url, const postgres_store_options& options);
  // The options have no default argument, because g++ 12 destroys a default argument twice inside a co_await
  // expression.
  postgres_store(const net::any_io_executor& executor, const std::string& url);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  postgres_store(ExecutionContext& context, const std::string& url, const postgres_store_options& options)
      : postgres_store{net::any_io_executor{context.get_executor()}, url, options} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  postgres_store(ExecutionContext& context, const std::string& url)
      : postgres_store{net::any_io_executor{context.get_executor()}, url} {}
  ~postgres_store() override;

  /// Submits a job over a connection of the program, in the transaction that is open there. So the job exists if and
  /// only if that transaction is committed. Services are notified of the job after the commit. The call blocks until
  /// the server answers.
  ///
  /// A REPEATABLE READ or SERIALIZABLE transaction sees the data as of its beginning. It can't submit a job with
  /// `after_batch`: errc::invalid_argument. If the job with the same unique key has changed since that beginning, the
  /// call throws error::locked, and the whole transaction must be repeated.
  ///
  /// Errors: those of put(). The connection must be idle, and must have the database and the search path of this store.
  /// During the call no other thread may use the connection. The tables must exist: any call of a store creates them.
  put_answer put_in(pg_conn* connection, const new_job& j);

  net::awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) override;
  net::awaitable<std::vector<claimed_job>> claim(claim_request r) override;
  net::awaitable<verdict> complete(lease l, std::string result) override;
  net::awaitable<verdict> fail(lease l, std::string text, duration retry_in) override;
  net::awaitable<verdict> snooze(lease l, duration d) override;
  net::awaitable<verdict> give_back(lease l) override;
  net::awaitable<extension> extend(lease l, duration d, std::optional<std::string> progress) override;
  net::awaitable<cancel_answer> cancel(job_id id) override;
  net::awaitable<requeue_answer> requeue(job_id id) override;
  net::awaitable<remove_answer> remove(job_id id) override;
  net::awaitable<std::size_t> trim(trim_request r) override;
  net::awaitable<void> pause(std::string queue) override;
  net::awaitable<void> resume(std::string queue) override;
  net::awaitable<duration> next_due(std::string queue) override;
  net::awaitable<instant> clock() override;
  net::awaitable<std::optional<job_info>> look(job_id id) override;
  net::awaitable<std::vector<job_info>> list(list_request r) override;
  net::awaitable<std::vector<queue_count>> count() override;
  net::awaitable<std::uint64_t> changed(std::uint64_t seen) override;
  void stop() noexcept override;
  std::string where() const override;
  store_facts facts() const override;

 private:
  class line;
  struct order;
  template <class T, class Decode>
  net::awaitable<T> ask(std::shared_ptr<order> o, Decode decode);
  std::shared_ptr<order> change();
  std::shared_ptr<order> glance();
  net::awaitable<void> set_paused(std::string queue, bool is_paused);

  std::unique_ptr<line> line_;
};

}  // namespace canigo::jobs
