#pragma once

#include "canigo/net.hpp"

#include "gateway/config/config.hpp"
#include "gateway/http/answer.hpp"
#include "gateway/http/byte_stream.hpp"
#include "gateway/http/call_record.hpp"
#include "gateway/http/message_parser.hpp"
#include "gateway/http/read_buffer.hpp"
#include "gateway/http/service.hpp"
#include "gateway/policy/head_rules.hpp"
#include "gateway/policy/wishes.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace canigo::gateway {

struct exchange;

/// What a connection is for.
struct entrance {
  std::optional<std::size_t> listener;  ///< an index into config::listeners; none: the admin's
};

/// A client's connection: its requests, one after the other. It is used on its loop only.
class connection {
 public:
  connection(service& s, loop& l, const entrance& e, stream_socket socket, std::string address);
  ~connection();
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  net::awaitable<void> run();

  /// The process ends: no further request. If none is on, the connection ends at once.
  void drain() noexcept;
  /// Ends the wait of the request, if its estimate, which these are by tag, is longer than `most`, or reaches past the
  /// longest wait that is allowed.
  void give_up(const std::unordered_map<std::uint64_t, duration>& estimates, duration most) noexcept;
  /// Ends the request that is on.
  void cut() noexcept;

 private:
  enum class phase : std::uint8_t { idle, head, waiting, running };

  net::awaitable<bool> secure();
  net::awaitable<bool> read_head(message_parser& parser);
  net::awaitable<void> serve(message_parser& parser);
  net::awaitable<void> forward(const generation& g, message_parser& parser, message_head& head,
                               const request_plan& plan, call_record& r);
  /// Whose a request is, where it goes, and how it is treated.
  struct errand {
    std::size_t tenant = 0;
    std::size_t upstream = 0;
    wishes granted;
  };
  std::optional<refusal> find_errand(const generation& g, const message_head& head, call_record& r, errand& e) const;
  net::awaitable<bool> get_permit(upstream_queue& q, std::size_t tenant, request ask, call_record& r, permit& granted,
                                  std::optional<refusal>& why);
  net::awaitable<void> sleep_watched(duration d);
  net::awaitable<void> answer(const refusal& why, call_record& r, const message_parser* parser);
  net::awaitable<void> write(std::string_view text);
  void client_left();
  call_record begin_record(const message_head& head);
  void end_record(call_record& r);

  service& service_;
  loop& loop_;
  const entrance entrance_;
  byte_stream client_;
  const std::string address_;
  bool is_secured_ = false;  // by TLS
  std::vector<std::string> certificate_names_;
  std::optional<std::uint32_t> peer_uid_;
  read_buffer input_;
  bool goes_on_ = true;
  bool lingers_ = false;  // the client may still be sending
  phase phase_ = phase::idle;
  bool has_left_ = false;
  std::uint64_t tag_ = 0;
  time_point deadline_{};
  net::cancellation_signal wait_;
  exchange* exchange_ = nullptr;
};

}  // namespace canigo::gateway
