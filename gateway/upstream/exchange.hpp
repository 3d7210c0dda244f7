#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/http/byte_stream.hpp"
#include "gateway/http/message.hpp"
#include "gateway/http/request_body.hpp"
#include "gateway/upstream/link.hpp"

#include <asio/awaitable.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// How one attempt to get a response has ended.
enum class attempt_end : std::uint8_t {
  complete,           ///< the client has the whole response
  put_back,           ///< a response came that is not to be passed on, see exchange::wants_again
  unreachable,        ///< no connection; nothing was sent
  connect_timed_out,  ///< the same
  forbidden,          ///< the upstream's name leads to addresses that are not allowed
  loop,               ///< it leads to the gateway itself
  lost,               ///< the connection broke after the request, before the first byte of a response
  first_byte_late,    ///< no response in time
  bad_response,       ///< what came is no HTTP
  body_failed,        ///< the client's body could not be read; see request_body::state()
  cut,                ///< it broke when the client already had the beginning of the response
  outrun,             ///< another attempt for the same request has had its response sooner
  client_lost,        ///< the client has left
  client_stalled,     ///< the client takes no byte of the response for too long
  idle,               ///< a tunnel in which nothing has moved for too long
};

/// Whether not even the head of the request went out.
constexpr bool nothing_was_sent(attempt_end end) noexcept {
  return end == attempt_end::unreachable || end == attempt_end::connect_timed_out || end == attempt_end::forbidden ||
         end == attempt_end::loop;
}

/// One request, or one tunnel, on its way to an upstream and back. It belongs to the connection of the client.
struct exchange {
  exchange(const upstream& u, const surroundings& s, byte_stream& c) : up{u}, around{s}, client{c} {}

  // What is sent. The streams and the rest outlive it.
  const upstream& up;
  const surroundings around;
  byte_stream& client;
  bool is_tls = false;           ///< the upstream is spoken to through TLS
  std::string head;              ///< of the request, with its framing and the empty line
  request_body* body = nullptr;  ///< null: there is none
  bool is_chunked = false;       ///< how the body is framed on its way out
  bool is_to_head = false;       ///< the method is HEAD
  /// Null, or this is a tunnel: no request is sent, but all that the client sends, beginning with what is in here.
  read_buffer* tunnelled = nullptr;
  int client_version = 11;
  duration write_stall{};
  time_point until = time_point::max();  ///< when the whole exchange has to have ended

  /// Sees the head of each response first.
  std::function<void(const message_head&)> sees_head;
  /// Whether a response is to be dropped, because the request will be sent again.
  std::function<bool(const message_head&)> wants_again;
  /// Whether a response goes to the client, now that there is one; null: it does. If not, another one does.
  std::function<bool()> may_answer;
  /// The head for the client: status line and fields, without framing, Connection and the empty line.
  std::function<std::string(const message_head&)> head_for_client;
  std::function<void()> begins_tunnel;  ///< of a tunnel: the client is about to be told that it is open
  /// Sees each piece of the response's body; null: nobody wants to.
  std::function<void(std::string_view)> sees_piece;

  bool signs_in_connection = false;  ///< the connection then serves no other request

  // What becomes of it.
  bool keeps_client = true;  ///< in: whether the client's connection may go on; out: whether it can
  std::string failure;       ///< why there is no connection; empty: nobody knows
  bool lacks_means = false;  ///< the same: this process has no descriptor or no memory left
  int status = 0;
  bool has_begun = false;      ///< the client has got a byte of the response
  bool has_lost_rest = false;  ///< the upstream has answered, and then not taken the rest of the body
  duration connect_time{};
  std::optional<time_point> first_byte;
  std::uint64_t bytes_in = 0;   ///< of a tunnel, from the client
  std::uint64_t bytes_out = 0;  ///< of the response's body, or of a tunnel to the client

  /// The upstream's side while an attempt is on. drop() ends what it waits for.
  link* over = nullptr;
  bool is_aborted = false;
  exchange* beside = nullptr;  ///< another attempt for the same request
  /// Ends the attempt soon, with client_lost. The client is left alone. From the loop's thread.
  void drop() noexcept;
  /// Ends all attempts soon, and what the client's side waits for.
  void abort() noexcept;
};

/// Makes one attempt over `l`, which is opened if it is not ready, and closed unless it can serve another request.
net::awaitable<attempt_end> attempt(exchange& x, link& l);

}  // namespace canigo::gateway
