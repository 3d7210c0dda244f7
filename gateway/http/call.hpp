#pragma once

#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/request.hpp"

#include "gateway/config/config.hpp"
#include "gateway/http/answer.hpp"
#include "gateway/http/call_record.hpp"
#include "gateway/http/connection.hpp"
#include "gateway/http/generation.hpp"
#include "gateway/http/message.hpp"
#include "gateway/http/message_parser.hpp"
#include "gateway/http/request_body.hpp"
#include "gateway/policy/head_rules.hpp"
#include "gateway/policy/head_writer.hpp"
#include "gateway/policy/token_account.hpp"
#include "gateway/upstream/exchange.hpp"
#include "gateway/upstream/upstream_queue.hpp"

#include <asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace canigo::gateway {

/// A request on its connection, from its head to its end: whose it is, where it goes, and what becomes of it.
///
/// What is known of it is in one place, and not in the frames of several functions. So a waiter takes less memory.
class connection::call {
 public:
  /// Takes the head, which the parser has. Both must outlive it.
  call(connection& home, message_parser& parser);
  call(const call&) = delete;
  call& operator=(const call&) = delete;

  /// Answers it, or sends it on. To be called once.
  net::awaitable<void> serve();

 private:
  const config& settings() const noexcept { return generation_->settings; }
  upstream_queue& queue() const noexcept { return *errand_.queue; }
  const upstream& to() const noexcept { return queue().settings(); }
  bool is_tunnel() const noexcept { return plan_.form == target_form::tunnel; }
  bool reads_body() const noexcept { return token_account::reads_body(to()); }
  net::awaitable<void> forward();
  net::awaitable<bool> read_body();
  request make_request();
  outgoing_body make_framing();
  void make_exchange();
  bool may_repeat();
  bool wants_again(const message_head& h);
  net::awaitable<void> sleep_before_repeat(attempt_end end);
  net::awaitable<bool> get_turn(upstream_place& held, permit& tunnel);
  net::awaitable<attempt_end> attempt(upstream_place& held);
  void settle(upstream_place& held, attempt_end end);
  bool goes_again(attempt_end end);
  void judge(attempt_end end);
  net::awaitable<void> finish();

  connection& home_;
  message_parser& parser_;
  const std::shared_ptr<const generation> generation_;  // it goes by this one, whatever comes
  const message_head head_;
  call_record record_;
  std::optional<refusal> why_;  // the gateway answers, and not an upstream
  request_plan plan_;
  errand errand_;

  // Once it is known where it goes:
  std::optional<listed> on_list_;
  std::optional<request_body> body_;
  std::optional<token_account> account_;
  request ask_;
  outgoing_body framing_;
  std::unique_ptr<exchange> exchange_;  // from the first grant on; a waiter takes less memory without it
  std::uint64_t random_ = 0;
  bool is_place_lost_ = false;
};

}  // namespace canigo::gateway
