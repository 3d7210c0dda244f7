#pragma once

#include "gateway/call/call_record.hpp"
#include "gateway/call/call_services.hpp"
#include "gateway/call/route_decision.hpp"
#include "gateway/policy/quota_fields.hpp"
#include "gateway/policy/repeat_rules.hpp"
#include "gateway/upstream/attempt_end.hpp"
#include "gateway/upstream/exchange.hpp"
#include "gateway/upstream/response_sink.hpp"
#include "gateway/upstream/upstream_place.hpp"
#include "gateway/wire/message.hpp"

#include <asio/awaitable.hpp>

#include <string>
#include <string_view>

namespace canigo::gateway {

/// The parts of a call that its attempts use. All references must outlive the attempts.
struct attempt_context {
  call_services& services;
  call_loop& loop;
  const call_record& record;
  const route_decision& route;
};

/// One attempt to send a call to its upstream. The attempt reports its result to the upstream's limits, pauses and
/// circuit breaker. Threads: only the thread of its loop.
class attempt final : private response_sink {
 public:
  /// `held`: the place (the permits) of the call at its upstream. `next`: receives the response. All arguments must
  /// outlive the attempt. Only this attempt may use `x`.
  attempt(const attempt_context& of, exchange& x, upstream_place& held, response_sink& next)
      : of_{of}, exchange_{x}, held_{held}, next_{next} {
    exchange_.sink = this;
  }

  /// Makes the attempt. If no file descriptor is free, it retries until the timeout for a connection has passed. Call
  /// it once.
  net::awaitable<attempt_end> run();

 private:
  upstream_queue& queue() const noexcept { return *of_.route.queue; }
  std::size_t target() const noexcept { return exchange_.target; }
  net::awaitable<void> wait_for_descriptor(time_point last_try);
  void report(const attempt_result& result);
  void report_end(attempt_end end);
  bool refuse_key(int status);
  bool note_failure(bool is_failure);
  void obey(const told_limits& told, int status);

  bool see_head(const message_head& h, std::string_view body, std::size_t target) override;
  bool drops(const message_head& h, std::string_view body, std::size_t target) override {
    return next_.drops(h, body, target);
  }
  bool may_answer() override { return next_.may_answer(); }
  std::string head_for_client(const message_head& h) override { return next_.head_for_client(h); }
  void see_piece(std::string_view piece) override { next_.see_piece(piece); }
  void begin_tunnel() override { next_.begin_tunnel(); }
  void watch_client(bool is_on) override { next_.watch_client(is_on); }

  const attempt_context of_;
  exchange& exchange_;
  upstream_place& held_;
  response_sink& next_;
  time_point since_{};
  bool is_sound_ = false;  // true: the response's head has arrived, and reports neither a failure nor a refusal
};

}  // namespace canigo::gateway
