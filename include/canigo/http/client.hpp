#pragma once

#include "canigo/http/detail/transfer.hpp"
#include "canigo/http/error.hpp"
#include "canigo/http/exchange.hpp"
#include "canigo/http/request.hpp"
#include "canigo/http/response.hpp"
#include "canigo/http/upload.hpp"
#include "canigo/net.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/ip/address.hpp>
#include <asio/use_awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace canigo::http {

/// The version of HTTP that a client uses.
///
/// `negotiated` uses HTTP/1.1 for a request with a body. For such requests libcurl (seen with 7.88) has defects over
/// HTTP/2:
/// - A server that answers before it has the whole body may end the stream, as servers in Go do. Then the answer is
///   lost, and the request ends with error::http2_stream_failed.
/// - libcurl may wait forever if a server answers completely without reading the rest of the request. It may also wait
///   forever if the bodies of the request and the answer are transferred at the same time.
enum class http_version {
  /// HTTP/1.1 for requests with a body. Other requests use HTTP/2 if the server offers it in the TLS handshake,
  /// otherwise HTTP/1.1.
  negotiated,
  http1,  ///< HTTP/1.1 for all requests
  http2,  ///< HTTP/2 from the first byte, also without TLS; the server must support it
};

/// The address of a host, with which the client needs no name lookup.
struct known_address {
  std::string host;  ///< the name of the host as in a URL: ASCII letters, digits, and - . _
  std::uint16_t port = 0;
  net::ip::address address;
};

struct client_options {
  /// max number of connections, and of requests under way, all hosts together; 1 to 65536
  std::size_t connections = 256;
  /// Max number of connections, and of requests under way, for one scheme, host and port; 1 to 65536, or unlimited. If
  /// it is less than `connections`, a host that does not answer can't take all connections.
  std::uint64_t connections_per_host = 16;
  duration connect_timeout = std::chrono::seconds{5};  ///< time to connect, TLS included; more than 0
  /// Time from send() to the last byte of the response, or from open() to its head; more than 0; max: no time limit.
  duration timeout = std::chrono::seconds{30};
  /// max number of redirects followed for GET, HEAD and POST, up to 100; 0: redirects are returned as responses
  int max_redirects = 5;
  /// For send(): the max size in bytes of a response body; with decode_body, the max size after the decoding. For
  /// open() with decode_body: the max number of bytes that were received and that the caller has not read yet.
  std::size_t max_body = 16 << 20;
  /// Max size in bytes of the header fields of a response, all redirects together. libcurl itself accepts about 300 kB
  /// per response, and 100 kB per line.
  std::size_t max_headers = 64 << 10;
  /// Whether to request an encoded body, and decode it. The client accepts those of the encodings gzip, br and zstd
  /// that libcurl supports. A header field Accept-Encoding of the request replaces that list. Content-Encoding and
  /// Content-Length stay as the server sent them. Off by default: then the body stays encoded as these fields say, and
  /// the loop spends no time on decoding.
  ///
  /// libcurl does not notice that an encoded body is cut off if the transfer itself is complete. A transfer is complete
  /// if as many bytes came as announced, or if the server ended the body normally. So a body that a broken cache has
  /// cut off may look complete.
  ///
  /// libcurl decodes only one gzip member. If more bytes follow it, the request ends with error::bad_content_encoding.
  bool decode_body = false;
  http_version version = http_version::negotiated;  ///< the version of HTTP that the client uses
  std::string user_agent = "canigo";                ///< the header field User-Agent; empty: not sent
  bool verify_tls = true;                           ///< whether to check the server's certificate and its host name
  /// A PEM file of trusted certificates, which the constructor reads once. Empty: the file in CURL_CA_BUNDLE or
  /// SSL_CERT_FILE, otherwise the system's.
  std::string ca_file = {};
  /// The trusted certificates themselves in PEM, instead of a file. Each new connection parses them.
  std::string ca_data = {};
  std::string cert_file = {};     ///< PEM file of the client's certificate and the intermediate certificates
  std::string key_file = {};      ///< PEM file of the key of that certificate; empty: cert_file also has the key
  std::string key_password = {};  ///< the password of the key; empty: the key has no password
  /// The URL of a proxy. Unset: the proxy that the environment variables http_proxy, https_proxy, all_proxy and
  /// no_proxy name when the client is made. Empty: no proxy.
  std::optional<std::string> proxy = {};
  /// The path of a Unix socket to which all connections go, whatever the host in the URL is. With a path, no proxy is
  /// used. Empty: connections use TCP.
  std::string unix_socket = {};
  /// Addresses of hosts that need no lookup. If two entries have the same host and port, the later one is used.
  std::vector<known_address> known_addresses = {};
  /// Decides whether to connect to an address; is_public() is an example. It is called for each address of a host
  /// before each new connection, also after redirects, but not for a Unix socket. Empty: all addresses are allowed. It
  /// may be called on any thread of the executor, one call at a time; if it throws, the address is refused.
  ///
  /// If there is a proxy, the proxy resolves host names, and the client can't check addresses. So this option can't be
  /// combined with a proxy, even one from the environment: `proxy` must be set to an empty string.
  std::function<bool(const net::ip::address&)> allow_address = {};
};

struct client_stats {
  std::size_t waiting = 0;  ///< requests that wait for a free connection
  std::size_t running = 0;
  std::uint64_t finished = 0;  ///< requests that ended, with a response or an error
};

/// Sends HTTP requests with libcurl, on an executor. Connections are kept open and reused.
///
/// Any number of requests may be sent at once. At most `connections_per_host` of them to one host are under way, and at
/// most `connections` of all; the others wait in order of arrival. Hosts below their maximum are served in turn.
///
/// A limit around send() takes its token before the request waits for a connection. So the token may be taken long
/// before the request is sent. To avoid that, give the limit `concurrency = client.connections_per_host()`: then a
/// request that has its token never waits for a connection.
///
/// If a connection breaks before the first byte of the answer, the server may or may not have executed the request. If
/// the connection had been used before, the client sends GET, HEAD, PUT, DELETE, OPTIONS and TRACE once more, over a
/// new connection; response::resends counts that. A request with any other method is not sent again: it ends with
/// error::no_response, even if an HTTP/2 server reported by REFUSED_STREAM that it did nothing.
///
/// A request with a field "Connection: close" is the last one on its connection.
///
/// The client discards a connection that received bytes while it was idle. HTTP/1 does not number answers. So if
/// unrequested bytes arrive after the next request was sent, the client takes them for the answer to this request.
///
/// Errors of all requests:
/// - error::… and any other code of curl, unchanged: see http::error;
/// - error::address_refused if client_options::allow_address refused every address; response::problem names the last
///   refused address;
/// - errc::timed_out; response::problem names the time limit, and says what was missing;
/// - errc::too_large for a response beyond client_options::max_body or max_headers; response::problem names the
///   maximum;
/// - error::bad_content_encoding with decode_body; response::problem says what is wrong;
/// - errc::invalid_argument for a method or header field that can't be sent, including CONNECT, Content-Length and
///   Transfer-Encoding, because the client writes these fields itself;
/// - errc::not_enough_memory, std::errc::too_many_files_open, errc::stopped.
///
/// A response with a status of 400 or more is not an error. A status of 101 ends with error::weird_server_reply unless
/// the request has a header field Upgrade.
///
/// Cancellation: terminal, partial, total. The request ends with operation_aborted. If the request was under way, its
/// connection is closed, because the rest of the answer is useless. If other requests use the same HTTP/2 connection,
/// only the stream of this request is reset.
/// Threads: any thread may call any member at any time. Only one thread at a time, of those that run the executor's
/// context, works on the connections.
/// Completion: always by a post to the handler's associated executor; the default is the client's executor.
/// Lifetime: destroying this object ends every request with errc::stopped. The execution context may be destroyed
/// first.
/// Process: ignore SIGPIPE, as in every program with sockets. The first client initialises libcurl. From libcurl
/// 7.84 on, that is safe while other threads use libcurl.
class client {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range; the text names it and the range.
  ///
  /// libcurl reads certificates only during a connection. So if there are certificates to read, the constructor opens a
  /// loopback port, and lets libcurl connect to it. That usually takes tens of milliseconds, and at most 5 s. So make
  /// clients at the start of a program, and not in a handler.
  explicit client(const net::any_io_executor& executor, const client_options& options = {});
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit client(ExecutionContext& context, const client_options& options = {})
      : client{net::any_io_executor{context.get_executor()}, options} {}
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// Sends the request and waits for the whole response. Throws std::system_error, whose text includes
  /// response::problem. For errc::invalid_argument the text names the field, the value and what is allowed.
  net::awaitable<response> send(request r);
  net::awaitable<response> get(std::string url) { return send(request{std::move(url)}); }

  /// Like send(), for any completion token; signature void(std::error_code, http::response).
  template <net::completion_token_for<void(std::error_code, response)> Token = net::use_awaitable_t<>>
  auto async_send(request r, Token&& token = Token()) {
    return net::async_initiate<Token, void(std::error_code, response)>(detail::start_transfer{engine_}, token,
                                                                       std::move(r));
  }

  /// Sends the request and waits for the head of the response; then the caller reads the body, as slowly as it likes.
  /// Redirects are followed first.
  ///
  /// The timeout covers the time until the head has arrived. request::keep_body has no effect here, and max_body only
  /// with decode_body.
  /// Errors: those of send(), thrown in the same way.
  /// Allocates: the exchange.
  net::awaitable<exchange> open(request r);

  /// Starts a request whose body the caller writes part by part. `length` is the size of the body in bytes, if known.
  ///
  /// Errors: errc::invalid_argument for a request that can't be sent, for GET and HEAD, and if `r` already has a body.
  /// The text names the field, the value and what is allowed.
  /// Allocates: the exchange.
  upload start_upload(request r, std::optional<std::uint64_t> length = std::nullopt);

  client_stats stats() const;

  /// The max number of requests to one host that are under way at the same time: the smaller of
  /// client_options::connections and connections_per_host. Use it as the cap of a limit on calls to one host, if all
  /// calls of this client to that host pass the limit.
  std::size_t connections_per_host() const noexcept;

  /// Ends all current and later requests with errc::stopped, and closes the connections. Idempotent.
  void stop() noexcept;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const;

 private:
  friend net::awaitable<response> send_checked(client& c, request r);
  net::awaitable<detail::ended_transfer> run(request r);

  std::shared_ptr<detail::engine> engine_;
};

}  // namespace canigo::http
