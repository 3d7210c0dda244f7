#pragma once

#include "canigo/net.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/reply.hpp"

#include "gateway/policy/budget_ledger.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include <atomic>
#include <memory>

namespace canigo::gateway {

/// Sends the statements of a shared budget ledger to Redis, one after the other, and passes the answers to the ledger.
/// A statement is a message with the sums and requests of several calls.
///
/// A statement is sent as soon as the ledger has something to send, and the previous statement has ended. So calls that
/// come at the same time share a statement.
class shared_sums : public std::enable_shared_from_this<shared_sums> {
 public:
  /// The statements are sent on the event loop of `executor`. `store` must outlive the last handler of this loop, or
  /// end all its commands with errc::stopped before it is destroyed.
  shared_sums(const net::any_io_executor& executor, redis::client& store, std::shared_ptr<budget_ledger> ledger);
  shared_sums(const shared_sums&) = delete;
  shared_sums& operator=(const shared_sums&) = delete;

  void start();
  /// Stops sending statements to Redis. Calls that wait for an answer of Redis get no money. Call it once, after all
  /// event loops have ended.
  void stop();

 private:
  net::awaitable<void> run();
  net::awaitable<bool> send(const budget_statement& s);
  void knock();

  const net::any_io_executor executor_;
  redis::client& store_;
  const std::shared_ptr<budget_ledger> ledger_;
  net::steady_timer idle_;   // the wait while the ledger has no statement to send
  net::steady_timer retry_;  // the wait before the next try after Redis has not answered a statement
  std::atomic<bool> has_news_{false};
  bool is_stopped_ = false;
};

}  // namespace canigo::gateway
