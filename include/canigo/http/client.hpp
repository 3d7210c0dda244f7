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

/// The version of HTTP that a client speaks.
///
/// `negotiated` speaks HTTP/1.1 for a request with a body. libcurl (seen with 7.88) has faults there over HTTP/2:
/// - A server that answers before it has the body may end the stream, as those in Go do. The answer is then lost, and
///   the request ends with error::http2_stream_failed.
/// - If a server answers in full and takes no more of the request, or if both bodies flow at once, libcurl may wait for
///   ever.
enum class http_version {
  negotiated,  ///< HTTP/2 where a server offers it in the TLS handshake, else HTTP/1.1; HTTP/1.1 for all with a body
  http1,       ///< HTTP/1.1
  http2,       ///< HTTP/2 from the first byte, without TLS too; the server must know it
};

/// The address of a host, so that the client does not look it up.
struct known_address {
  std::string host;  ///< as in a URL: letters of ASCII, digits, and - . _
  std::uint16_t port = 0;
  net::ip::address address;
};

struct client_options {
  std::size_t connections = 256;  ///< most connections, and most requests under way, of all hosts; 1 to 65536
  /// Most connections and most requests of one scheme, host and port; 1 to 65536, or unlimited. As long as it is less
  /// than `connections`, a host that does not answer leaves connections to the others.
  std::uint64_t connections_per_host = 16;
  duration connect_timeout = std::chrono::seconds{5};  ///< until the server is reached, TLS included; more than 0
  /// From send() to the last byte, or from open() to the head; more than 0; max: none.
  duration timeout = std::chrono::seconds{30};
  int max_redirects = 5;  ///< hops followed for GET, HEAD and POST, up to 100; 0: a redirect is a plain
                          ///< response
  /// Bytes of the body of a response to send(). With decode_body the decoded bytes count, and the bound holds for the
  /// unread bytes of a response to open(), too.
  std::size_t max_body = 16 << 20;
  /// Bytes of the header fields of a response, of all hops together. libcurl accepts some 300 kB of a response, and 100
  /// kB in a line.
  std::size_t max_headers = 64 << 10;
  /// Asks for an encoded body, in all of gzip, br and zstd that libcurl supports, and decodes it. A field
  /// Accept-Encoding of the request replaces that list. Content-Encoding and Content-Length stay as the server sent
  /// them. Off by default: the body then stays encoded as these fields say, and the loop spends no time on decoding.
  ///
  /// libcurl does not see that an encoded body lacks its end, if the transfer itself is whole. It is whole if as many
  /// bytes came as were announced, or if the server ended the body as usual. So a body that a broken cache has cut
  /// short may look whole. libcurl decodes one member of gzip: bytes after it are error::bad_content_encoding.
  bool decode_body = false;
  http_version version = http_version::negotiated;  ///< the version of HTTP to speak
  std::string user_agent = "canigo";                ///< empty: the field is not sent
  bool verify_tls = true;                           ///< check the server's certificate and name
  std::string ca_file = {};       ///< PEM file of trusted certificates; the constructor reads it once; empty:
                                  ///< the file that CURL_CA_BUNDLE or SSL_CERT_FILE names, else the system's
  std::string ca_data = {};       ///< the certificates themselves, PEM, instead of a file; each new connection
                                  ///< reads them
  std::string cert_file = {};     ///< PEM file of the client's certificate, and of the intermediate certificates
  std::string key_file = {};      ///< PEM file of the key for it; empty: cert_file has the key, too
  std::string key_password = {};  ///< the password of the key; empty: it has none
  std::optional<std::string> proxy = {};  ///< unset: as http_proxy, https_proxy, all_proxy and no_proxy say when
                                          ///< the client is made; empty: none
  /// Connections go to this Unix socket, whatever the host of the URL is. No proxy is used. Empty: none.
  std::string unix_socket = {};
  /// Hosts that are not looked up. Of two entries for one host and port the last one counts.
  std::vector<known_address> known_addresses = {};
  /// Whether to connect to an address, for example is_public. It is asked for each address of a name before each new
  /// connection, also behind redirects. It is not asked for a Unix socket. Empty: connect to all. It may be called on
  /// any thread of the executor, one call at a time; if it throws, that counts as no.
  ///
  /// A proxy resolves the names itself, so this would not be asked. Therefore it can't be combined with a proxy, also
  /// with one of the environment: `proxy` must then be empty.
  std::function<bool(const net::ip::address&)> allow_address = {};
};

struct client_stats {
  std::size_t waiting = 0;  ///< requests that wait for one of the connections
  std::size_t running = 0;
  std::uint64_t finished = 0;  ///< responses and errors
};

/// Sends HTTP requests: libcurl on an executor. Connections are kept, and requests share them.
///
/// Any number of requests may be out. `connections_per_host` of them to one host are under way at a time, and
/// `connections` of all; the others wait in the order of arrival. Hosts below their bound take turns.
///
/// A limit around the call comes before that wait, so it takes a token long before the request goes. Give the limit
/// `concurrency = client.connections_per_host()`: it then takes the token and the place in one step.
///
/// If a connection breaks before the first byte of the answer, the server may or may not have executed the request. If
/// that connection had been used before, the client sends GET, HEAD, PUT, DELETE, OPTIONS and TRACE once more, over a
/// new connection; response::resends says so. It sends no other method again: such a request ends with
/// error::no_response, even if a server of HTTP/2 said by REFUSED_STREAM that it did nothing.
///
/// A request with a field "Connection: close" is the last one on its connection.
///
/// The client discards a connection that received bytes while it was idle. Bytes that a server sends unasked after the
/// next request has gone out are taken for its answer, because HTTP/1 does not number answers.
///
/// Errors of all requests:
/// - error::… and any other code of curl, unchanged: see http::error;
/// - error::address_refused, if client_options::allow_address said no to every address; response::problem has the last;
/// - errc::timed_out; response::problem names the limit, and says what was missing;
/// - errc::too_large for a response beyond client_options::max_body or max_headers; response::problem names the bound;
/// - error::bad_content_encoding with decode_body; response::problem says what is wrong;
/// - errc::invalid_argument for a method or header field that can't be sent: CONNECT, Content-Length and
///   Transfer-Encoding are among these, because the client writes them itself;
/// - errc::not_enough_memory, std::errc::too_many_files_open, errc::stopped.
///
/// A response with a status of 400 or more is not an error. A status of 101 is a weird_server_reply unless the request
/// has a field Upgrade.
///
/// Cancellation: terminal, partial, total. The request ends with operation_aborted. If it was under way, its
/// connection is closed, as the rest of the answer is of no use. If other requests use the same connection of HTTP/2,
/// it stays, and only the request's stream is reset.
/// Threads: any, all members, at once. One thread at a time works on the connections, any of those that run the
/// executor's context.
/// Completion: always by a post to the handler's associated executor, by default the client's.
/// Lifetime: destroying it ends every request with errc::stopped. The execution context may be destroyed first.
/// Process: SIGPIPE should be ignored, as in every program with sockets. The first client initialises libcurl. From
/// libcurl 7.84 on, that is safe beside other threads.
class client {
 public:
  /// Throws std::system_error: errc::invalid_argument, naming the field, the value and the range. To read certificates
  /// it listens on a port of the loopback. That usually takes tens of milliseconds, and 5 s at most. So
  /// make clients at the start of a program, and not in a handler.
  explicit client(const net::any_io_executor& executor, const client_options& options = {});
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit client(ExecutionContext& context, const client_options& options = {})
      : client{net::any_io_executor{context.get_executor()}, options} {}
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// Sends the request and waits for the whole response. Throws std::system_error, whose text has response::problem.
  /// For errc::invalid_argument its text names the field, the value and what is allowed.
  net::awaitable<response> send(request r);
  net::awaitable<response> get(std::string url) { return send(request{std::move(url)}); }

  /// Like send(), for any completion token; signature void(std::error_code, http::response).
  template <net::completion_token_for<void(std::error_code, response)> Token = net::use_awaitable_t<>>
  auto async_send(request r, Token&& token = Token()) {
    return net::async_initiate<Token, void(std::error_code, response)>(detail::start_transfer{engine_}, token,
                                                                       std::move(r));
  }

  /// Sends the request and waits for the head of the response; the caller then reads the body, as slowly as it likes.
  /// Redirects are followed before.
  ///
  /// The timeout counts until the head is there. request::keep_body has no effect here, and max_body has one only with
  /// decode_body.
  /// Errors: those of send(), thrown the same way.
  /// Allocates: the exchange.
  net::awaitable<exchange> open(request r);

  /// A request whose body the caller writes part by part. `length` is the size of the body in bytes, if it is known.
  ///
  /// Errors: errc::invalid_argument for a request that can't be sent, for GET and HEAD, and for one with a body. Its
  /// text names the field, the value and what is allowed.
  /// Allocates: the exchange.
  upload start_upload(request r, std::optional<std::uint64_t> length = std::nullopt);

  client_stats stats() const;

  /// Most requests to one host that are under way at a time: the lesser of the two bounds in the options. It is the
  /// right cap for a limit of calls to one host, if no other calls of this client go there.
  std::size_t connections_per_host() const noexcept;

  /// Ends every request and every later one with errc::stopped, and closes the connections. Idempotent.
  void stop() noexcept;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const;

 private:
  friend net::awaitable<response> send_checked(client& c, request r);
  net::awaitable<detail::ended_transfer> run(request r);

  std::shared_ptr<detail::engine> engine_;
};

}  // namespace canigo::http
