#pragma once

#include "canigo/http/client.hpp"

#include "response_head.hpp"
#include "trust.hpp"

#include <asio/ip/address.hpp>
#include <curl/curl.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace canigo::http::detail {

class easy_handle;

/// The interface through which an easy handle uses the connections of its client.
class connection_source {
 public:
  /// Opens a socket for a new connection. Returns CURL_SOCKET_BAD, with errno set, if that fails.
  virtual curl_socket_t open_socket(const curl_sockaddr& address) noexcept = 0;
  /// Shuts down the idle connection with this local port if bytes have arrived on it that belong to no response.
  /// `has_more`: some of these bytes were already read from its socket. Returns whether it has shut down a connection.
  virtual bool spoil_if_unclean(int local_port, bool has_more) noexcept = 0;
  /// Shuts down all idle HTTP/1 connections. Returns whether one of them had this local port.
  virtual bool spoil_idle(int local_port) noexcept = 0;
  /// Called when the transfer of `h` is paused. The transfer's connection is then in use, although curl waits for no
  /// event on it.
  virtual void paused(const easy_handle& h) noexcept = 0;
  /// Called when the transfer has accepted `size` bytes of a body and has space for another read.
  virtual void took(std::size_t size) noexcept = 0;

 protected:
  ~connection_source() = default;
};

/// One of curl's easy handles. It is used for one transfer after another.
///
/// The client's options are set once. The options of a request are set for each transfer. Setting all options for each
/// transfer would take a microsecond.
class easy_handle : public list_node<easy_handle, struct in_unwatched> {
 public:
  /// The max number of bytes that curl reads from a connection in one call. For a paused transfer curl keeps a buffer
  /// of this size, a copy of the buffer's content, and 13 KiB more. In sum, that is less than the 64 KiB that
  /// http::exchange documents.
  static constexpr std::size_t read_size = 24 << 10;

  /// `options` must outlive the handle. Throws std::bad_alloc.
  easy_handle(const client_options& options, const trust& trusted, connection_source& source,
              curl_closesocket_callback close, void* closer);

  CURL* get() const noexcept { return easy_.get(); }
  transfer* current() const noexcept { return transfer_; }

  /// Sets the handle up for the transfer's request. After an error the handle can't be used for this transfer.
  std::error_code begin(transfer& t) noexcept;
  /// From now on, curl may not send the request again, and may not follow a redirect. The transfer only waits for the
  /// answer.
  void send_no_more() noexcept;
  /// Whether the server was reached and the whole body of the request was sent.
  bool has_sent_all() const noexcept;
  /// Continues the transfer of the body after a pause. After an error the transfer must be ended.
  std::error_code resume() noexcept;
  /// Called before curl closes the socket `fd` of any transfer.
  void closes(curl_socket_t fd) noexcept;
  /// Called when curl has stopped waiting for events on the transfer's socket.
  void waits_for_nothing() noexcept;
  /// For a transfer whose response is a stream: whether the head of the response was passed to the transfer.
  bool has_told_head() const noexcept { return head_told_; }
  /// Whether the transfer is paused until it can accept more of the body.
  bool is_paused() const noexcept { return is_paused_; }
  /// Whether the handle has a transfer whose request is not sent yet, or is not sent yet to the target of its last
  /// redirect.
  bool is_connecting() const noexcept { return transfer_ != nullptr && !was_sent_in_this_hop(); }
  /// Returns an error text which says that client_options.connect_timeout has passed, and names the missing step, such
  /// as setting up TLS.
  std::string passed_connect_timeout() const;
  /// Returns the end of an error text about a timeout, for use after "passed before". It names the first missing step
  /// on the way to sending the request. Example: "the server was reached".
  const char* missing_to_send() const noexcept;
  /// Copies curl's information into the transfer's response, and returns how the transfer ended.
  std::error_code end(CURLcode result) noexcept;

  /// Returns the object of one of curl's easy handles; null for a handle that curl made for itself.
  static easy_handle* of(CURL* easy) noexcept;
  /// Returns the handle that works for `t`. Precondition: begin() was called for `t`.
  static easy_handle& of(const transfer& t) noexcept { return *t.easy_; }

  /// The local port of the connection over which the current transfer's request was sent; 0: it was not sent yet.
  int local_port() const noexcept { return local_port_; }

  /// Whether the handle must not be used for another transfer, for example because a transfer had to change its
  /// connection. curl counts these changes over the lifetime of the handle, and gives up at the sixth change.
  bool is_worn() const noexcept { return is_worn_; }

  std::error_code unwatched;  ///< why a socket of the current transfer could not be watched

 private:
  struct cleanup {
    void operator()(CURL* e) const noexcept { curl_easy_cleanup(e); }
    void operator()(curl_slist* l) const noexcept { curl_slist_free_all(l); }
  };

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* self) noexcept;
  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self) noexcept;
  static std::size_t on_read(char* to, std::size_t, std::size_t room, void* self) noexcept;
  static int on_seek(void* self, curl_off_t offset, int) noexcept;
  static int on_connected(void* self, char*, char*, int, int local_port) noexcept;
  /// Whether the client may connect to `address`. If not, stores the error in no_socket_.
  bool may_connect(const curl_sockaddr& address) noexcept;
  static curl_socket_t on_open(void* self, curlsocktype, curl_sockaddr* address) noexcept;

  void set_headers(const request& r, bool has_body);
  bool may_send(int local_port) noexcept;
  bool was_sent_in_this_hop() const noexcept;
  /// Whether newest_socket_ is connected.
  bool is_reached() const noexcept;
  /// Whether the TLS engine of the connection has bytes that curl has not read.
  bool has_unread_tls() const noexcept;
  std::error_code reason(CURLcode result) const noexcept;
  /// Returns an explanation of the error; empty if the error code says everything.
  std::string problem(const transfer& t, std::error_code ec, CURLcode result) const;
  /// Returns an error text that names the limit which the response has exceeded.
  std::string passed_bound(const transfer& t, CURLcode result) const;
  error certificate_problem() const noexcept;
  int number(CURLINFO info) const noexcept;
  CURLcode set_method(const transfer& t, bool has_body) noexcept;
  /// Whether the head that has just ended is the head of the final response.
  bool is_final_head() const noexcept;
  void tell_head();
  /// Whether curl must continue to read from the connection even if the caller does not read the response's body. That
  /// is so over HTTP/2 while the caller still writes the request's body.
  bool must_read() const noexcept;
  /// Makes curl stop reading the body until resume().
  void pause() noexcept;
  /// Stores a part of the body. Returns false if the body is too large.
  bool take(std::string_view part);
  /// Whether the transfer refuses a part of `size` bytes of the body. If so, pauses the transfer: curl keeps the part
  /// until resume().
  bool refuses(std::size_t size) noexcept;
  /// The max number of bytes of the body that may be stored until the caller reads them.
  std::size_t most_unread() const noexcept;
  bool is_http2() const noexcept;
  void fill(response& r) const;

  const duration connect_timeout_;
  const std::size_t max_headers_;
  const std::size_t max_body_;
  const int max_redirects_;
  const bool decodes_;
  const bool has_identity_;
  const http_version version_;
  const std::function<bool(const net::ip::address&)>* allow_address_;
  connection_source* source_;
  std::unique_ptr<CURL, cleanup> easy_;
  std::unique_ptr<curl_slist, cleanup> agent_;  // the field User-Agent, unless curl writes it itself
  std::unique_ptr<curl_slist, cleanup> known_addresses_;
  std::unique_ptr<curl_slist, cleanup> fields_;  // the header fields for curl; null for a request without fields
  transfer* transfer_ = nullptr;
  // Why a callback has ended the transfer; nothing if no callback has ended it. An empty error code: a callback has
  // ended the transfer, but the answer is valid.
  std::optional<std::error_code> refused_;
  std::size_t most_body_ = 0;
  bool is_body_too_large_ = false;
  bool is_paused_ = false;
  bool is_starved_ = false;    // whether curl waits for the caller's next bytes to send
  bool follows_ = false;       // whether curl follows redirects
  bool head_told_ = false;     // whether the response's head was passed to the stream
  std::error_code no_socket_;  // why no socket could be opened for the transfer
  bool has_opened_ = false;    // whether a socket was opened since the last redirect
  // The socket that curl has opened last since the request was last sent; CURL_SOCKET_BAD: none, or it is closed. If
  // curl tries two addresses at the same time, this may be the socket of the slower one.
  curl_socket_t newest_socket_ = CURL_SOCKET_BAD;
  bool was_reached_ = false;  // whether newest_socket_ was connected when curl closed it
  net::ip::address refused_address_;
  int local_port_ = 0;
  int sent_hop_ = -1;      // the number of redirects before the request was last sent; -1: not sent yet
  int sent_connects_ = 0;  // how many connections the transfer had made when the request was last sent
  bool is_worn_ = false;
  // whether the client has shut down the transfer's connection, so that curl must use another connection; until curl
  // uses it, the request's body is not sent
  bool is_spoiled_ = false;
  bool has_given_ = false;       // whether curl has got a part of the request's body
  bool may_resend_ = false;      // whether the request may be sent once more to the same URL
  bool is_set_for_get_ = false;  // whether the handle still has the options of a GET from the previous transfer
  response_head head_{0};
  std::array<char, CURL_ERROR_SIZE> said_{};  // the text that curl writes when an error occurs
};

}  // namespace canigo::http::detail
