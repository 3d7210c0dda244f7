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

/// A client, as far as its connection knows it.
struct connected_client {
  std::string address;  ///< empty: it came over a unix socket
  std::vector<std::string> certificate_names;
  std::optional<std::uint32_t> uid;  ///< the user of the peer of a unix socket
  std::uint32_t listener = 0;        ///< an index into config::listeners
  bool is_secured = false;           ///< whether TLS secures it
};

/// The connection of a call, as far as the call may use it. Used on its loop only. It outlives the call.
class call_host {
 public:
  call_host() = default;
  call_host(const call_host&) = delete;
  call_host& operator=(const call_host&) = delete;
  virtual ~call_host() = default;

  virtual const connected_client& client() const noexcept = 0;
  virtual byte_stream& stream() noexcept = 0;
  /// Bytes that were read, and belong to the call's body or to what follows it.
  virtual read_buffer& input() noexcept = 0;

  /// Whether the connection may have another request after this one, as far as it is known yet.
  virtual bool goes_on() const noexcept = 0;
  /// Lets no other request come on the connection.
  virtual void forbid_next() noexcept = 0;
  /// Called when the client has the whole response. If the connection ends here, it waits for the client to take it.
  virtual void note_answered() noexcept = 0;

  /// From now on call::end_by_client() is called once the client has left; at once if it has.
  virtual void watch_client() = 0;
  virtual void unwatch_client() noexcept = 0;

  /// Answers instead of an upstream, and ends the record. `request`: null if it is unknown where the request ends.
  virtual net::awaitable<void> answer(const refusal& why, call_record& r, const message_parser* request) = 0;
  /// Counts the call, and writes it to the log.
  virtual void end_record(call_record& r) = 0;
};

}  // namespace canigo::gateway
