#pragma once

#include "canigo/net.hpp"

#include "gateway/call/call_record.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/wire/byte_stream.hpp"
#include "gateway/wire/message_parser.hpp"
#include "gateway/wire/read_buffer.hpp"

#include <asio/awaitable.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace canigo::gateway {

/// The data about a client that the gateway gets from the client's connection.
struct connected_client {
  std::string address;  ///< the client's address; empty: the client came over a unix socket
  std::vector<std::string> certificate_names;
  std::optional<std::uint32_t> uid;  ///< the user id of the process at the other end of a unix socket
  std::uint32_t listener = 0;        ///< the index of the client's listener in config::listeners
  bool is_secured = false;           ///< whether the connection uses TLS
};

/// The interface through which a call uses its client's connection. The connection outlives the call. Threads: only the
/// thread of its loop.
class call_host {
 public:
  call_host() = default;
  call_host(const call_host&) = delete;
  call_host& operator=(const call_host&) = delete;
  virtual ~call_host() = default;

  virtual const connected_client& client() const noexcept = 0;
  virtual byte_stream& stream() noexcept = 0;
  /// The bytes that were read from the client after the request's head. They are a part of the request's body, or they
  /// follow the whole request.
  virtual read_buffer& input() noexcept = 0;

  /// Whether the connection may serve another request after this one, as far as is known now.
  virtual bool goes_on() const noexcept = 0;
  /// Makes this request the last one of the connection.
  virtual void forbid_next() noexcept = 0;
  /// Call it when the whole response was sent. If the connection is to be closed after this response, the gateway
  /// first waits, for a limited time, until the client stops sending. So the client does not lose the response.
  virtual void note_answered() noexcept = 0;

  /// From now on, the connection calls call::end_by_client() when the client disconnects. If the client has already
  /// disconnected, the connection calls it immediately.
  virtual void watch_client() = 0;
  virtual void unwatch_client() noexcept = 0;

  /// Sends the gateway's own answer, and calls end_record(). `request`: null if it is unknown where the request ends.
  virtual net::awaitable<void> answer(const refusal& why, call_record& r, const message_parser* request) = 0;
  /// Counts the call, and writes its line to the access log.
  virtual void end_record(call_record& r) = 0;
};

}  // namespace canigo::gateway
