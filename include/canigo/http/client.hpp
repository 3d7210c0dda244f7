#pragma once

#include "canigo/http/detail/transfer.hpp"
#include "canigo/http/error.hpp"
#include "canigo/http/request.hpp"
#include "canigo/http/response.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace canigo::http {

struct client_options {
  std::size_t connections = 16;          ///< most connections, and most requests under way; 1 to 65536
  std::size_t connections_per_host = 0;  ///< the same for one scheme, host and port; 0: as many as `connections`
  duration connect_timeout = std::chrono::seconds{5};  ///< until the server is reached, TLS included; more than 0
  duration timeout = std::chrono::seconds{30};         ///< from send() to the last byte; more than 0; max: none
  int max_redirects = 5;                  ///< hops followed for GET, HEAD and POST; 0: a redirect is a response as any
  std::size_t max_body = 16 << 20;        ///< bytes of a response's body
  std::size_t max_headers = 64 << 10;     ///< bytes of its header fields, those of all hops together
  std::string user_agent = "canigo";      ///< empty: the field is not sent
  bool verify_tls = true;                 ///< check the server's certificate and name
  std::string ca_file = {};               ///< PEM file of trusted certificates, read once, by the constructor; empty:
                                          ///< that which CURL_CA_BUNDLE or SSL_CERT_FILE names, else the system's
  std::optional<std::string> proxy = {};  ///< unset: as http_proxy, https_proxy, all_proxy and no_proxy say, if any
                                          ///< does when the client is made; empty: none
};

struct client_stats {
  std::size_t waiting = 0;  ///< for a place among the connections
  std::size_t running = 0;
  std::uint64_t finished = 0;  ///< responses and errors
};

/// Sends HTTP requests: libcurl on an executor, connections kept and shared between requests.
///
/// Any number of requests may be out; `connections` of them are under way at a time, and the others wait in the order
/// of arrival. With `connections_per_host`, hosts that have a place take turns.
///
/// A connection that breaks before the first byte of the answer leaves open whether the server has done what it was
/// asked. GET, HEAD, PUT, DELETE, OPTIONS and TRACE are sent once more then, over a new connection, if the broken one
/// had been used before; response::resends says so. A request with any other method is never sent again: it ends with
/// error::no_response. So it does, too, where a server of HTTP/2 has said that it did nothing, by REFUSED_STREAM.
///
/// What a server says on an idle connection is not taken for the answer to the next request: that goes over another
/// one. What it says unasked once the next request is on its way is taken for the answer, as HTTP/1 numbers none.
///
/// Errors, of all requests: error::… and any other code of curl's as it is, see http::error; errc::timed_out;
/// errc::too_large for a response beyond client_options::max_body or max_headers; errc::invalid_argument for a method
/// or header field that can't be sent, CONNECT, Content-Length and Transfer-Encoding among them, which are the client's
/// to write; errc::not_enough_memory; std::errc::too_many_files_open; errc::stopped. A response with a status of 400
/// and more is not an error; one of 101 is a weird_server_reply unless the request has a field Upgrade.
/// Cancellation: terminal, partial, total. The request ends with operation_aborted; where it was under way its
/// connection is closed, for what the server still sends is of no use; one of HTTP/2 that other requests use stays, and
/// the request's stream is reset.
/// Threads: any, all members, at once. Work on the connections is done by whichever thread runs the executor's
/// context, by one at a time.
/// Completion: always by a post to the handler's associated executor, by default the client's.
/// Lifetime: destroying it ends every request with errc::stopped. The execution context may be destroyed first.
/// Process: SIGPIPE should be ignored, as in every program with sockets. The first client initialises libcurl, which
/// is safe beside other threads from libcurl 7.84 on.
class client {
 public:
  /// Throws std::system_error: errc::invalid_argument, naming the field, the value and the range. To have a `ca_file`
  /// read it listens on a port of the loopback, some milliseconds as a rule, 5 s at most.
  explicit client(const net::any_io_executor& executor, const client_options& options = {});
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit client(ExecutionContext& context, const client_options& options = {})
      : client{net::any_io_executor{context.get_executor()}, options} {}
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// Sends the request and waits for all of the response. Throws std::system_error; for errc::invalid_argument its text
  /// names the field, the value and what is allowed.
  net::awaitable<response> send(request r);
  net::awaitable<response> get(std::string url) { return send(request{std::move(url)}); }

  /// The same for any completion token; signature void(std::error_code, http::response).
  template <net::completion_token_for<void(std::error_code, response)> Token>
  auto async_send(request r, Token&& token) {
    return net::async_initiate<Token, void(std::error_code, response)>(detail::start_transfer{engine_}, token,
                                                                       std::move(r));
  }

  client_stats stats() const;

  /// Ends every request with errc::stopped, and every later one, and closes the connections. Idempotent.
  void stop() noexcept;

  net::any_io_executor get_executor() const;

 private:
  std::shared_ptr<detail::engine> engine_;
};

}  // namespace canigo::http
