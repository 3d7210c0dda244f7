#pragma once

#include "canigo/net.hpp"

#include "gateway/admin/admin_session.hpp"
#include "gateway/process/admin_handler.hpp"
#include "gateway/wire/byte_stream.hpp"
#include "gateway/wire/message.hpp"

#include <asio/awaitable.hpp>

#include <functional>
#include <utility>

namespace canigo::gateway {

/// Serves the admin listener: health checks, the page, the state, metrics, and an operator's commands.
///
/// All requests need the admin token, except for health checks and for the page, which contains no data.
class admin final : public admin_handler {
 public:
  void take(process_commands commands) override { session_.commands = std::move(commands); }
  net::awaitable<admin_reply> answer(service& s, const message_head& head, bool closes) override;
  bool is_still_admitted(const service& s, const message_head& head) override;
  net::awaitable<void> send_events(service& s, byte_stream& client, const bool& has_left,
                                   std::function<bool()> may_listen) override;

 private:
  admin_session session_;
};

}  // namespace canigo::gateway
