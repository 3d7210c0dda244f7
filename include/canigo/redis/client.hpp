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
  duration connect_timeout = std::chrono::seconds{5};  ///< time to connect and log in, TLS included; more than 0
  /// time limit of a command, from call to reply; more than 0; max: no time limit
  duration timeout = std::chrono::seconds{5};
  /// The delay before the next attempt to connect.
  backoff reconnect = {.first = std::chrono::milliseconds{50}, .cap = std::chrono::seconds{1}};
  std::size_t queue_limit = 10'000;  ///< max number of commands that wait for a connection or a reply; 1 or more
  std::size_t max_reply = 16 << 20;  ///< max size in bytes of a reply, with overhead for each element; 1 KiB or more
  std::string name = "canigo";       ///< the name shown by CLIENT LIST; without spaces; empty: none
  bool verify_tls = true;            ///< whether to check the server's certificate and its host name
  std::string ca_file = {};          ///< PEM file of trusted certificates; empty: those of the system
  std::string cert_file = {};  ///< PEM file of the client's certificate and the intermediate certificates; empty: none
  std::string key_file = {};  ///< PEM file of the certificate's key, without a password; empty: the key is in cert_file
  std::string sentinel_user = {};  ///< the user for sentinels; empty: log in with sentinel_password alone, if it is set
  /// The password for sentinels. If both sentinel_user and sentinel_password are empty, the client uses the URL's user
  /// and password for sentinels that require a login.
  std::string sentinel_password = {};
};

struct client_stats {
  std::size_t waiting = 0;  ///< commands that wait for a connection
  /// commands that were sent and not answered, including those whose callers stopped waiting
  std::size_t in_flight = 0;
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;
  std::uint64_t connects = 0;   ///< number of connections made
  std::uint64_t failures = 0;   ///< number of lost connections and failed attempts to connect
  std::string last_error = {};  ///< why the last attempt failed or the connection was lost; empty while connected
};

/// A client for Redis, or a server with the same protocol: RESP 2 over one connection, which all callers share.
///
/// Any number of commands may be outstanding at the same time. They are sent in order of arrival, all available
/// commands in one write. Do not send commands that block the connection (BLPOP, SUBSCRIBE, MONITOR, MULTI by hand),
/// because they would block all callers.
///
/// The client connects when a command needs a connection. After a failure it waits for a random delay, which grows from
/// 50 ms to 1 s by default (`reconnect`). If an address does not respond at all, the client tries that address again
/// after 1.5 s. Commands that were not sent wait for the connection, until their own timeout. Commands that were sent
/// may have been executed, so they end with error::connection_lost. While no command waits, the client has no timer,
/// reads nothing, and does not keep io_context::run() from returning.
///
/// In a Redis Cluster, run() sends the command to the node that has its first key, over a separate connection for each
/// node. A command without a key goes to the node in the URL. async_run() always uses the node in the URL, and may end
/// with error::moved.
///
/// Errors of all commands:
/// - redis::error::… for an error reply, whose text becomes the exception's text, and for a broken connection;
/// - errc::store_unavailable if the command could not be sent in time, because there was no connection;
/// - errc::timed_out if the command was sent and not answered in time;
/// - errc::too_large for a reply above the maximum size;
/// - errc::queue_full, errc::not_enough_memory, errc::stopped.
///
/// The TLS files are read again for each connection, so a new connection uses renewed files. If a file is unreadable or
/// invalid, waiting commands end with errc::invalid_argument and a text that names the file.
///
/// Cancellation: terminal, partial, total. If the command was not sent yet, it is dropped. If it was sent, its reply is
/// ignored.
/// Threads: any thread may call any member at any time.
/// Completion: always by a post to the handler's associated executor; the default is the client's executor.
/// Lifetime: destroying this object ends every command with errc::stopped. The execution context may be destroyed
/// first.
/// Process: ignore SIGPIPE, as in every program with sockets.
class client {
 public:
  /// `url` is parsed by redis::endpoint. The constructor does not connect.
  ///
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  client(const net::any_io_executor& executor, std::string_view url, const client_options& options);
  // The options have no default argument, because g++ 12 destroys a default argument twice inside a co_await
  // expression.
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

  /// Like run(), for any completion token; signature void(std::error_code, redis::reply). An error reply sets both
  /// arguments. With errc::store_unavailable, the text of the reply gives the reason.
  template <net::completion_token_for<void(std::error_code, reply)> Token = net::use_awaitable_t<>>
  auto async_run(const command& c, Token&& token = Token()) {
    return net::async_initiate<Token, void(std::error_code, reply)>(detail::start_call<detail::call>{engine_}, token,
                                                                    c);
  }

  client_stats stats() const;

  /// Ends all current and later commands with errc::stopped, and closes the connection. Idempotent.
  void stop() noexcept;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const;

 private:
  friend detail::engine& detail::engine_of(const client& c) noexcept;
  std::shared_ptr<detail::engine> engine_;
};

}  // namespace canigo::redis
