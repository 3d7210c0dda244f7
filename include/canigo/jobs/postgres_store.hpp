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
  store_policy policy = {};  ///< for jobs that crash
  /// How long a step waits for a lock that another connection holds; 1 ms or more. Other steps go on meanwhile.
  duration lock_limit = std::chrono::seconds{5};
  /// How long a step waits for a server that can't be reached, or that is starting; 0 or more.
  duration reconnect_limit = std::chrono::seconds{5};
  /// How long the server may be silent while a step waits for it; more than 0. Then the connection is given up. It is
  /// also how long count() and list() may take; then they end with error::locked.
  duration answer_limit = std::chrono::seconds{30};
  /// How often callers of changed() are woken even without a known change; more than 0.
  duration poll = std::chrono::seconds{30};
};

/// Jobs in a database of PostgreSQL 12 or later, which the processes of many machines share.
///
///     canigo::jobs::postgres_store store{io, "postgresql://shop@db.example.org/shop"};
///
/// The database may be one that the program has for its own tables: those of jobs are called canigo_…, and lie in the
/// first schema of the search path. All times are those of the server. The store has a thread and a connection of its
/// own. All steps that wait are one transaction in one round trip. NOTIFY tells other processes of changes. Steps that
/// may read much, count() and list(), have a second thread and connection, made for the first of them.
///
/// The constructor does not wait for the connection. While the server starts or can't be reached, calls wait for
/// `reconnect_limit`. They fail at once for a cause that lasts: a wrong password, a missing database or right, a server
/// that is read-only. If the connection broke before the server could say that it wrote something, the call
/// throws error::unknown_outcome; claims and reads are done again instead.
///
/// The names of queues and kinds are text: UTF-8 without NUL. Each transaction of the store is READ COMMITTED, whatever
/// the server's default is, and leaves no setting behind. So a proxy may lend connections by transaction, as PgBouncer
/// does in that mode. But such a proxy carries no notifications. Then facts() says so, and the store looks for jobs
/// every second.
///
/// Threads: any, all members, at once.
/// Lifetime: the destructor waits for the steps that were handed over. Each takes as long as the limits of the options
/// at most.
class postgres_store final : public store {
 public:
  /// `url` is a URL of PostgreSQL, or a string such as "host=/run/postgresql dbname=shop". Parts that are left out come
  /// from the environment, as PGHOST, PGPASSWORD and so on, or from the file of passwords.
  ///
  /// Throws std::system_error, errc::invalid_argument, naming the field and the range; never the URL.
  postgres_store(const net::any_io_executor& executor, const std::string& url, const postgres_store_options& options);
  // No default argument: g++ 12 destroys one twice if the store is made in an expression with a co_await.
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

  /// Adds a job on a connection of the program, in the transaction that is open there: the job exists if and only if
  /// that transaction is committed. Services are told after the commit. It waits for the server.
  ///
  /// A transaction that is REPEATABLE READ or SERIALIZABLE sees the data as of its beginning. It can't hand in a job
  /// with `after_batch`: errc::invalid_argument. If the job that holds the unique key has changed since, the call
  /// throws error::locked, and the whole transaction must be repeated.
  ///
  /// Errors: those of put(). The connection must be idle, to this database with this search path, and used by no other
  /// thread meanwhile. The tables must be there: any call of a store has made them.
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
