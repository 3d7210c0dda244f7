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

/// A wrapper of curl's multi interface. add() starts a transfer, and next_outcome() returns the result of a transfer.
/// The listener waits for the events of sockets. alarm_at() returns when curl must be called next. This class calls no
/// object except the listener. Threads: one at a time.
class multi : private connection_source {
 public:
  /// Throws std::bad_alloc. If curl can't use an option, throws system_error with a code of errc.
  multi(const client_options& options, const net::any_io_executor& executor, const time_source& time,
        socket_listener& listener);

  bool is_open() const noexcept { return multi_ != nullptr; }
  /// Ends every transfer and closes every connection.
  void close() noexcept;
  /// Call it when the execution context is destroyed.
  void shutdown() noexcept;

  /// Starts a transfer. Throws std::bad_alloc. If it returns an error, nothing was started.
  std::error_code add(transfer& t);
  /// Removes a transfer that was started and has ended by itself.
  std::error_code remove(transfer& t, CURLcode result) noexcept;

  /// Continues the body of a transfer after a pause. If it returns an error, the caller must abort the transfer.
  std::error_code resume(transfer& t) noexcept;

  /// Ends a transfer in any state, and informs its server immediately.
  void abort(transfer& t) noexcept;

  struct outcome {
    transfer* ended;
    CURLcode result;
    std::error_code error;  // why a socket could not be watched; if set, `result` has no meaning
  };
  /// Returns the next transfer that has ended by itself; std::nullopt if there is none. The caller must then remove
  /// that transfer.
  std::optional<outcome> next_outcome() noexcept;

  /// Call it when waits for events of the socket of `w` have ended. Tells curl which events have occurred. `fired`: the
  /// events whose waits have ended; `aborted`: the events among `fired` whose waits were cancelled.
  void socket_news(socket_watch& w, int fired, int aborted) noexcept;
  /// Call it when the time of alarm_at() has come. The next run() then calls curl, unless curl has cancelled the alarm
  /// in the meantime.
  void alarm_rang() noexcept { is_due_ = is_due_ || alarm_at_ != time_point::max(); }
  /// Whether run() must be called immediately. The caller could set a timer that has already expired instead, but that
  /// would cost one more turn of the reactor.
  bool is_due() const noexcept { return is_due_ || has_lost_socket_; }
  void run() noexcept;
  /// When curl must be called; time_point::max() if there is no such time.
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
  std::unique_ptr<CURLM, cleanup> multi_;  // curl's multi handle; null after close()
  std::vector<std::unique_ptr<easy_handle>> handles_;
  std::vector<easy_handle*> idle_handles_;
  linked_list<easy_handle, in_unwatched> unwatched_;  // the handles with a socket that could not be watched
  std::size_t taken_ = 0;                             // number of body bytes accepted during the latest call of curl
  bool is_due_ = false;
  bool has_lost_socket_ = false;  // whether a connecting transfer has no socket any more; see go_on_connecting()
  time_point alarm_at_ = time_point::max();
};

}  // namespace canigo::http::detail
