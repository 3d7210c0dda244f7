#pragma once

#include "canigo/algorithms/backoff.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/detail/call.hpp"
#include "canigo/redis/error.hpp"
#include "canigo/redis/reply.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/use_awaitable.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace canigo::redis {

class client;

namespace detail {
engine& engine_of(const client& c) noexcept;
}

struct client_options {
  duration connect_timeout = std::chrono::seconds{5};  ///< until logged in, TLS included; more than 0
  duration timeout = std::chrono::seconds{5};          ///< of a command, from call to reply; more than 0; max: none
  /// The delays between attempts to connect.
  backoff reconnect = {.first = std::chrono::milliseconds{50}, .cap = std::chrono::seconds{1}};
  std::size_t queue_limit = 10'000;    ///< most commands that wait for a connection or a reply; 1 or more
  std::size_t max_reply = 16 << 20;    ///< bytes of one reply, including the cost of its elements; 1 KiB or more
  std::string name = "canigo";         ///< shown by CLIENT LIST; without spaces; empty: none
  bool verify_tls = true;              ///< check the server's certificate and name
  std::string ca_file = {};            ///< PEM file of trusted certificates; empty: the system's
  std::string cert_file = {};          ///< PEM file of the client's own certificate and its chain; empty: none
  std::string key_file = {};           ///< PEM file of its key, without a password; empty: the key is in cert_file
  std::string sentinel_user = {};      ///< the user for sentinels; empty: sentinel_password alone, if there is one
  std::string sentinel_password = {};  ///< if both are empty, sentinels that want a login get the login of the URL
};

struct client_stats {
  std::size_t waiting = 0;    ///< commands for a connection
  std::size_t in_flight = 0;  ///< commands sent and not answered, abandoned ones too
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;
  std::uint64_t connects = 0;   ///< connections made
  std::uint64_t failures = 0;   ///< connections that were lost, and attempts that failed
  std::string last_error = {};  ///< why the last attempt failed or the connection was lost; empty while connected
};

/// Speaks to a Redis, or to a server with the same protocol: RESP 2 over one connection, which all callers share.
///
/// Any number of commands may be out. They go in the order of arrival, and one write sends all that are there.
/// Commands that block the connection (BLPOP, SUBSCRIBE, MONITOR, MULTI by hand) would hold up all callers: do not
/// send them.
///
/// The client connects as soon as a command needs it. After failures it waits for a random delay, which grows from 50
/// ms to 1 s by default (`reconnect`). It tries an address that does not answer at all again after 1.5 s. Commands
/// that were not sent wait for the connection, until their own timeout. Commands that were sent may have been
/// executed, so they end with error::connection_lost. While no command waits, the client has no timer, reads nothing,
/// and keeps no loop running.
///
/// In a Redis Cluster, run() goes to the node that has the command's first key, on a connection of its own. A command
/// without a key goes to the node that the URL names. async_run() always goes to that node, and may end with
/// error::moved.
///
/// Errors of all commands:
/// - redis::error::… for an error reply, whose text is the exception's, and for a broken connection;
/// - errc::store_unavailable if there was no connection in time to send the command;
/// - errc::timed_out if the command was sent and not answered in time;
/// - errc::too_large for a reply beyond the bound;
/// - errc::queue_full, errc::not_enough_memory, errc::stopped.
///
/// The files of TLS are read for each connection. So a new connection uses renewed files. A file that can't be read or
/// is wrong ends the commands that wait, with errc::invalid_argument and a text that names it.
///
/// Cancellation: terminal, partial, total. A command that was not sent yet is dropped. If it was sent, its reply is
/// thrown away when it comes.
/// Threads: any, all members, at once.
/// Completion: always by a post to the handler's associated executor, by default the client's.
/// Lifetime: destroying it ends every command with errc::stopped. The execution context may be destroyed first.
/// Process: SIGPIPE should be ignored, as in every program with sockets.
class client {
 public:
  /// The URL is that of redis::endpoint. The constructor does not connect.
  ///
  /// Throws std::system_error: errc::invalid_argument, naming the field, the value and the range.
  client(const net::any_io_executor& executor, std::string_view url, const client_options& options);
  // No default argument: g++ 12 destroys one twice if the client is made in an expression with a co_await.
  client(const net::any_io_executor& executor, std::string_view url);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  client(ExecutionContext& context, std::string_view url, const client_options& options)
      : client{net::any_io_executor{context.get_executor()}, url, options} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  client(ExecutionContext& context, std::string_view url) : client{net::any_io_executor{context.get_executor()}, url} {}
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// Sends the command and waits for the reply. Throws std::system_error, also for an error reply.
  net::awaitable<reply> run(command c);
  template <class Name, class... Args>
    requires std::convertible_to<const Name&, std::string_view>
  net::awaitable<reply> run(const Name& name, const Args&... args) {
    return run(command{name, args...});
  }

  /// Like run(), for any completion token; signature void(std::error_code, redis::reply). An error reply sets both.
  /// With errc::store_unavailable, the reply's text says why.
  template <net::completion_token_for<void(std::error_code, reply)> Token = net::use_awaitable_t<>>
  auto async_run(const command& c, Token&& token = Token()) {
    return net::async_initiate<Token, void(std::error_code, reply)>(detail::start_call<detail::call>{engine_}, token,
                                                                    c);
  }

  client_stats stats() const;

  /// Ends every command and every later one with errc::stopped, and closes the connection. Idempotent.
  void stop() noexcept;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const;

 private:
  friend detail::engine& detail::engine_of(const client& c) noexcept;
  std::shared_ptr<detail::engine> engine_;
};

}  // namespace canigo::redis
