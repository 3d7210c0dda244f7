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

/// The connections of a client, as an easy handle needs them.
class connection_source {
 public:
  /// Opens a socket for a new connection. Returns CURL_SOCKET_BAD, with errno set, if that fails.
  virtual curl_socket_t open_socket(const curl_sockaddr& address) noexcept = 0;
  /// Shuts down the idle connection with this local port if it has bytes that belong to no response. `has_more`: some
  /// of them were already read from its socket. Returns whether it was shut down.
  virtual bool spoil_if_unclean(int local_port, bool has_more) noexcept = 0;
  /// Shuts down all idle HTTP/1 connections. Returns whether one of them had this local port.
  virtual bool spoil_idle(int local_port) noexcept = 0;
  /// Called when the transfer of `h` is paused. Its connection is not idle, although curl waits for no event on it.
  virtual void paused(const easy_handle& h) noexcept = 0;
  /// Called when `size` bytes of a body were taken and the caller has space for another read.
  virtual void took(std::size_t size) noexcept = 0;

 protected:
  ~connection_source() = default;
};

/// One of curl's easy handles, used for one transfer after the other.
///
/// The options of the client are set once, those of a request each time. To reset and set all of them again would cost
/// a microsecond.
class easy_handle : public list_node<easy_handle, struct in_unwatched> {
 public:
  /// The most that curl reads of a connection at once. For a paused transfer curl keeps twice as much, a buffer and a
  /// copy of its content, and 13 KiB more. That is less than the 64 KiB which http::exchange promises.
  static constexpr std::size_t read_size = 24 << 10;

  /// `options` must stay. Throws std::bad_alloc.
  easy_handle(const client_options& options, const trust& trusted, connection_source& source,
              curl_closesocket_callback close, void* closer);

  CURL* get() const noexcept { return easy_.get(); }
  transfer* current() const noexcept { return transfer_; }

  /// Makes the handle ready for the transfer's request. After an error it is not ready.
  std::error_code begin(transfer& t) noexcept;
  /// Sends nothing more, neither again nor to where a redirect leads. The transfer only waits for the answer.
  void send_no_more() noexcept;
  /// Whether the server was reached and all of the request's body has gone out.
  bool has_sent_all() const noexcept;
  /// Lets the body go on after a pause. After an error the transfer is to end.
  std::error_code resume() noexcept;
  /// curl waits for nothing of the socket any more.
  void waits_for_nothing() noexcept;
  /// Whether the transfer, a stream, knows the head of the response.
  bool has_told_head() const noexcept { return head_told_; }
  /// Whether curl waits until the transfer can take more of the body.
  bool is_paused() const noexcept { return is_paused_; }
  /// Whether the handle has a transfer whose request, or whose last redirect, has no connection yet.
  bool is_connecting() const noexcept { return transfer_ != nullptr && !was_sent_in_this_hop(); }
  /// The part that is missing before the request can be sent, in words.
  const char* missing_to_send() const noexcept;
  /// Moves what curl knows into the transfer's response, and says how it ended.
  std::error_code end(CURLcode result) noexcept;

  /// The object around an easy handle of curl's; null for one that curl made for itself.
  static easy_handle* of(CURL* easy) noexcept;
  /// The handle that works for `t`. begin() has been called for it.
  static easy_handle& of(const transfer& t) noexcept { return *t.easy_; }

  /// The port of this side of the connection that the current transfer's request went over; 0: none yet.
  int local_port() const noexcept { return local_port_; }

  /// Whether a transfer had to take another connection. curl counts that over the whole life of the handle, and gives
  /// up at the sixth time.
  bool is_worn() const noexcept { return is_worn_; }

  std::error_code unwatched;  ///< why a socket of the current transfer's could not be watched

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
  /// Whether the client connects to that address. If not, notes the reason.
  bool may_connect(const curl_sockaddr& address) noexcept;
  static curl_socket_t on_open(void* self, curlsocktype, curl_sockaddr* address) noexcept;

  void set_headers(const request& r, bool has_body);
  bool may_send(int local_port) noexcept;
  bool was_sent_in_this_hop() const noexcept;
  /// Whether TLS has bytes of the connection that were not read.
  bool has_unread_tls() const noexcept;
  std::error_code reason(CURLcode result) const noexcept;
  /// The reason in more words; empty if the code tells all.
  std::string problem(const transfer& t, std::error_code ec, CURLcode result) const;
  /// The bound that a response has passed which is too large, in words.
  std::string passed_bound(const transfer& t, CURLcode result) const;
  error certificate_problem() const noexcept;
  int number(CURLINFO info) const noexcept;
  CURLcode set_method(const transfer& t, bool has_body) noexcept;
  /// Whether the head that has just ended is that of the response itself, and not an earlier head.
  bool is_final_head() const noexcept;
  void tell_head();
  /// Whether curl must read although the caller does not read the body.
  bool must_read() const noexcept;
  /// Has curl read no more of the body until resume().
  void pause() noexcept;
  /// Takes a part of the body. False: the body is too large.
  bool take(std::string_view part);
  /// Whether curl is to keep a part of that size until resume().
  bool refuses(std::size_t size) noexcept;
  /// The most bytes of the body that may be stored until the caller reads them.
  std::size_t most_unread() const noexcept;
  bool is_http2() const noexcept;
  void fill(response& r) const;

  const std::size_t max_headers_;
  const std::size_t max_body_;
  const int max_redirects_;
  const bool decodes_;
  const bool has_identity_;
  const http_version version_;
  const std::function<bool(const net::ip::address&)>* allow_address_;
  connection_source* source_;
  std::unique_ptr<CURL, cleanup> easy_;
  std::unique_ptr<curl_slist, cleanup> agent_;  // the field User-Agent, if curl does not write it itself
  std::unique_ptr<curl_slist, cleanup> known_addresses_;
  std::unique_ptr<curl_slist, cleanup> fields_;  // null for a request without fields
  transfer* transfer_ = nullptr;
  std::optional<std::error_code> refused_;  // why a callback made curl give up; no error: the answer stands
  std::size_t most_body_ = 0;
  bool is_body_too_large_ = false;
  bool is_paused_ = false;
  bool is_starved_ = false;    // curl waits until there are bytes to send
  bool follows_ = false;       // curl follows redirects
  bool head_told_ = false;     // the stream has received the head
  std::error_code no_socket_;  // why no socket could be opened
  bool has_opened_ = false;    // a socket was opened for this hop
  curl_socket_t newest_socket_ = CURL_SOCKET_BAD;
  net::ip::address refused_address_;
  int local_port_ = 0;
  int sent_hop_ = -1;      // the last hop of redirects that the request was sent for
  int sent_connects_ = 0;  // how many connections had been made then
  bool is_worn_ = false;
  bool is_spoiled_ = false;      // its connection can send nothing: curl takes another one, and until then no body
  bool has_given_ = false;       // curl has got a part of the body
  bool may_resend_ = false;      // the request may be sent once more in the same hop
  bool is_set_for_get_ = false;  // the transfer before was a GET
  response_head head_{0};
  std::array<char, CURL_ERROR_SIZE> said_{};  // the text of curl for the error
};

}  // namespace canigo::http::detail
