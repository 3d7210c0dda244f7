#pragma once

#include "canigo/http/client.hpp"
#include "canigo/time_source.hpp"

#include "easy_handle.hpp"
#include "socket_table.hpp"
#include "trust.hpp"

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

namespace canigo::http::detail {

/// curl's multi interface. Transfers go in, and results come out. It asks for news of sockets through the listener, and
/// for a call at a time through alarm_at(). One thread at a time uses it. It calls only the listener.
class multi : private connection_source {
 public:
  /// Throws std::bad_alloc, and errc::… for an option that curl can't use.
  multi(const client_options& options, const net::any_io_executor& executor, const time_source& time,
        socket_listener& listener);

  bool is_open() const noexcept { return multi_ != nullptr; }
  /// Gives up every transfer and closes every connection.
  void close() noexcept;
  /// Call it when the execution context goes.
  void shutdown() noexcept;

  /// Starts a transfer. Throws std::bad_alloc; with an error nothing was started.
  std::error_code add(transfer& t);
  /// Ends a transfer that was started and has ended by itself.
  std::error_code remove(transfer& t, CURLcode result) noexcept;

  /// Lets the body of a transfer go on after a pause. After an error the transfer is to be aborted.
  std::error_code resume(transfer& t) noexcept;

  /// Ends a transfer in any state. Its server is told at once.
  void abort(transfer& t) noexcept;

  struct outcome {
    transfer* ended;
    CURLcode result;
    std::error_code error;  // why a socket could not be watched; then `result` means nothing
  };
  /// The next transfer that has ended by itself, still to be removed.
  std::optional<outcome> next_outcome() noexcept;

  /// Tells curl about ended waits for the socket of `w`.
  void socket_news(socket_watch& w, int fired, int aborted) noexcept;
  /// Tells curl that the time it asked for has come. It may have asked for another one since.
  void alarm_rang() noexcept { is_due_ = is_due_ || alarm_at_ != time_point::max(); }
  /// Whether curl wants to be called at once; the next run() does that. A timer that has already expired would cost a
  /// turn of the reactor.
  bool is_due() const noexcept { return is_due_ || has_lost_socket_; }
  void run() noexcept;
  /// When curl wants to be called; time_point::max(): not at all.
  time_point alarm_at() const noexcept { return alarm_at_; }

 private:
  struct cleanup {
    void operator()(CURLM* m) const noexcept { curl_multi_cleanup(m); }
  };

  easy_handle& idle_handle();
  void flush(int local_port) noexcept;
  void go_on_connecting() noexcept;

  curl_socket_t open_socket(const curl_sockaddr& address) noexcept override;
  bool spoil_if_unclean(int local_port, bool has_more) noexcept override;
  bool spoil_idle(int local_port) noexcept override;
  void paused(const easy_handle& h) noexcept override;
  void took(std::size_t size) noexcept override { taken_ += size; }

  static int on_close(void* self, curl_socket_t fd) noexcept;
  static int on_socket(CURL* easy, curl_socket_t fd, int what, void* self, void*) noexcept;
  static int on_timer(CURLM*, long milliseconds, void* self) noexcept;
  void want(CURL* easy, curl_socket_t fd, int what) noexcept;
  void stop_wanting(CURL* easy, socket_watch& w) noexcept;
  void watch_connection(CURL* easy, curl_socket_t fd) noexcept;

  const client_options options_;
  const trust trust_;
  const time_source* time_;
  socket_table sockets_;
  std::unique_ptr<CURLM, cleanup> multi_;  // null: closed
  std::vector<std::unique_ptr<easy_handle>> handles_;
  std::vector<easy_handle*> idle_handles_;
  linked_list<easy_handle, in_unwatched> unwatched_;  // those with a socket that could not be watched
  std::size_t taken_ = 0;                             // bytes of bodies, in one call of curl's
  bool is_due_ = false;
  bool has_lost_socket_ = false;  // a transfer that connects has none now
  time_point alarm_at_ = time_point::max();
};

}  // namespace canigo::http::detail
