#pragma once

#include "canigo/net.hpp"

#include "gateway/call/call.hpp"
#include "gateway/call/call_host.hpp"
#include "gateway/call/call_record.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/process/service.hpp"
#include "gateway/wire/byte_stream.hpp"
#include "gateway/wire/disconnect_watch.hpp"
#include "gateway/wire/message_parser.hpp"
#include "gateway/wire/read_buffer.hpp"

#include <asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The listener through which a connection came in, and the counter for its connections.
struct entrance {
  /// the index of the listener in config::listeners; none: the admin's listener
  std::optional<std::uint32_t> listener;
  connection_counts& count;  ///< the counter in which this connection is counted
};

/// A client's connection. It reads the heads of requests, handles TLS, and decides whether another request follows.
/// Threads: only the thread of its loop.
class connection final : private call_host, private disconnect_watch::listener {
 public:
  connection(service& s, loop& l, const entrance& e, stream_socket socket, std::string address);
  ~connection() override;

  net::awaitable<void> run();

  /// Prepares for the end of the process. The present request, or a request that has already arrived, is the
  /// connection's last one. If the client has sent no request yet, it may still send one. An idle connection that has
  /// served a request is closed.
  void drain() noexcept;
  /// Closes the connection if it is idle, unless it came through the admin's listener.
  void end_idle() noexcept;
  /// Whether the connection came through the admin's listener, and has no request to answer at the moment.
  bool is_idle_admin() const noexcept {
    return !entrance_.listener && !has_left_ && (phase_ == phase::idle || phase_ == phase::head);
  }
  /// Call it when the time for running requests is over. If the present request still waits in a queue, its wait ends,
  /// and the client gets an answer. If the request is already at an upstream, the exchange with the upstream is cut
  /// off.
  void finish() noexcept;
  /// Ends the wait of a call, because the last part of a drain has begun.
  void end_wait() noexcept;
  /// Closes the connection immediately, and ends its running request.
  void cut() noexcept;

 private:
  enum class phase : std::uint8_t { idle, head, request, closing };

  const connected_client& client() const noexcept override { return client_; }
  byte_stream& stream() noexcept override { return stream_; }
  read_buffer& input() noexcept override { return input_; }
  bool goes_on() const noexcept override { return goes_on_; }
  void forbid_next() noexcept override { goes_on_ = false; }
  void note_answered() noexcept override { lingers_ = true; }
  void watch_client() override;
  void unwatch_client() noexcept override;
  net::awaitable<void> answer(const refusal& why, call_record& r, const message_parser* request) override;
  void end_record(call_record& r) override;

  bool is_last() const noexcept;
  bool goes_on_after(const message_parser& request) const noexcept;
  bool has_come();
  net::awaitable<bool> secure();
  net::awaitable<bool> read_head(message_parser& parser);
  net::awaitable<bool> serve_admin(message_parser& parser);
  net::awaitable<void> write(std::string_view text);
  void peer_left() noexcept override;

  service& service_;
  loop& loop_;
  const entrance entrance_;
  byte_stream stream_;
  // watches for a disconnect of the client; created for the first request that goes to an upstream
  std::optional<disconnect_watch::entry> watch_;
  connected_client client_;
  read_buffer input_;
  std::unique_ptr<call> call_;  // the present request to an upstream; null: there is none
  phase phase_ = phase::idle;
  bool goes_on_ = true;      // false: no further request may follow on this connection; see goes_on_after()
  bool has_served_ = false;  // whether at least one request was served
  bool lingers_ = false;     // the client may still be sending, so closing waits a little until the client has stopped
  bool has_left_ = false;
};

}  // namespace canigo::gateway
