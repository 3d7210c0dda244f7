#pragma once

#include "canigo/backoff.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/detail/call.hpp"
#include "canigo/redis/error.hpp"
#include "canigo/redis/reply.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>

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
  backoff reconnect = {.first = std::chrono::milliseconds{50}, .cap = std::chrono::seconds{1}};
  std::size_t queue_limit = 10'000;    ///< most commands that are waited for; 1 or more
  std::size_t max_reply = 16 << 20;    ///< bytes of one reply, and what its elements cost; 1 KiB or more
  std::string name = "canigo";         ///< shown by CLIENT LIST; without spaces; empty: none
  bool verify_tls = true;              ///< check the server's certificate and name
  std::string ca_file = {};            ///< PEM file of trusted certificates; empty: the system's
  std::string sentinel_user = {};      ///< to sentinels; none: as sentinel_password says
  std::string sentinel_password = {};  ///< the same; neither: those of the URL, to sentinels that ask
};

struct client_stats {
  std::size_t waiting = 0;    ///< commands for a connection
  std::size_t in_flight = 0;  ///< commands sent and not answered, abandoned ones too
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;
  std::uint64_t connects = 0;   ///< connections made
  std::uint64_t failures = 0;   ///< connections lost, and attempts that failed
  std::string last_error = {};  ///< why the last attempt failed, or the connection was lost; empty once there is one
};

/// Speaks to a Redis, or what understands its protocol: RESP 2 over one connection, which all callers share.
///
/// Any number of commands may be out; they go in the order of arrival, in one write for all that are there. Commands
/// that block the connection (BLPOP, SUBSCRIBE, MONITOR, MULTI by hand) are not for a shared one.
///
/// A connection that breaks is made again as soon as somebody needs it, with a random delay that grows from 50 ms to
/// 1 s after failures; an address that does not answer at all is tried again after 1.5 s. Commands that were not sent
/// wait for it, until their own timeout; those that were end with error::connection_lost, as they may have been
/// executed. A client that nobody waits for has no timer and reads nothing, and keeps no loop running.
///
/// In a Redis Cluster run() goes to the node that has the command's first key, on a connection of its own, and where
/// there is no key to the one that the URL names; async_run() always goes to that one, and may end with error::moved.
///
/// Errors, of all commands: redis::error::… for an error reply and a broken connection, with the text of the reply as
/// the exception's; errc::store_unavailable if there was no connection to send it on in time; errc::timed_out if it was
/// sent and not answered in time; errc::too_large for a reply beyond the bound; errc::queue_full;
/// errc::not_enough_memory; errc::stopped.
/// Cancellation: terminal, partial, total. One that was not sent is not; of one that was the reply is thrown away when
/// it comes.
/// Threads: any, all members, at once.
/// Completion: always by a post to the handler's associated executor, by default the client's.
/// Lifetime: destroying it ends every command with errc::stopped. The execution context may be destroyed first.
/// Process: SIGPIPE should be ignored, as in every program with sockets.
class client {
 public:
  /// The URL is that of redis::endpoint. Nothing is connected yet.
  ///
  /// Throws std::system_error: errc::invalid_argument, naming the field, the value and the range.
  client(const net::any_io_executor& executor, std::string_view url, const client_options& options);
  // Not a default argument, which g++ 12 destroys twice where the client is made in an expression with a co_await.
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

  /// The same for any completion token; signature void(std::error_code, redis::reply). With an error reply there are
  /// both; with errc::store_unavailable the reply's text says why.
  template <net::completion_token_for<void(std::error_code, reply)> Token>
  auto async_run(const command& c, Token&& token) {
    return net::async_initiate<Token, void(std::error_code, reply)>(detail::start_call<detail::call>{engine_}, token,
                                                                    c);
  }

  client_stats stats() const;

  /// Ends every command with errc::stopped, and every later one, and closes the connection. Idempotent.
  void stop() noexcept;

  net::any_io_executor get_executor() const;

 private:
  friend detail::engine& detail::engine_of(const client& c) noexcept;
  std::shared_ptr<detail::engine> engine_;
};

}  // namespace canigo::redis
