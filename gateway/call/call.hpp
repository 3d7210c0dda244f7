#pragma once

#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/request.hpp"

#include "gateway/call/call_host.hpp"
#include "gateway/call/call_money.hpp"
#include "gateway/call/call_record.hpp"
#include "gateway/call/call_services.hpp"
#include "gateway/call/client_keeper.hpp"
#include "gateway/call/config_snapshot.hpp"
#include "gateway/call/request_view.hpp"
#include "gateway/call/route_decision.hpp"
#include "gateway/call/turn.hpp"
#include "gateway/policy/head_rules.hpp"
#include "gateway/policy/head_writer.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/policy/token_account.hpp"
#include "gateway/upstream/attempt_end.hpp"
#include "gateway/upstream/exchange.hpp"
#include "gateway/upstream/response_sink.hpp"
#include "gateway/upstream/upstream_place.hpp"
#include "gateway/wire/boxed.hpp"
#include "gateway/wire/message.hpp"
#include "gateway/wire/message_parser.hpp"
#include "gateway/wire/request_body.hpp"

#include <asio/awaitable.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// A request that goes to an upstream, from its head to its end: its route, its wait, its attempts, its settlement.
///
/// All of its state is in this object instead of coroutine frames, so that a waiting call takes less memory. Threads:
/// only the thread of its loop.
class call final : private response_sink {
 public:
  /// Takes the request's head out of the parser. All arguments must outlive the call.
  call(call_host& host, call_services& services, call_loop& loop, message_parser& request);
  ~call() override;

  /// Returns the next step of the call. Await the step, and pass its result to this function to get the step after it.
  /// The call has ended if the returned awaitable is not valid(). Because of the separate steps, a waiting call has
  /// only one coroutine frame: that of its wait.
  net::awaitable<bool> next_step(bool went_well);

  /// Call it when the client has disconnected.
  void end_by_client() noexcept;
  /// Ends the call. The client gets an error. If the client already has the beginning of the response, its connection
  /// is closed instead.
  void end_by(call_ender who) noexcept;
  /// Ends the current wait, if there is one. The answer to the client then gives one of two reasons: the process is
  /// about to end, or else the wait would be too long.
  void wake() noexcept { turn_.wake(); }
  /// Call it when the process will end at `end`. The connection then serves no request after this one.
  void drain(time_point end) noexcept;
  /// Ends the wait if `estimate`, the estimated wait, exceeds `most` or goes beyond the call's deadline.
  void give_up(duration estimate, duration most) noexcept;
  /// Call it after a quota was used up. If the call waits and needs that quota, it then waits only for other targets.
  /// If no other target can serve the call, the wait ends.
  void look_at_quotas();
  /// Call it when the budget of a target may have money again. If the call left out a target for lack of money, the
  /// call checks again which targets may serve it.
  void look_at_money();
  /// Moves the call to the configuration `next` after a reload. The call ends if `next` has no upstream, tenant or
  /// tunnel for it; see turn::follow().
  void follow(const config_snapshot& next, const std::shared_ptr<void>& until_moved) noexcept {
    turn_.follow(next, until_moved);
  }

  bool waits() const noexcept { return turn_.waits(); }
  /// Whether the call has requested a place at its upstream; true even after the request for a place has ended.
  bool has_asked() const noexcept { return has_asked_; }
  /// Whether an attempt runs: an upstream has the request, or a connection to the upstream is being opened.
  bool is_running() const noexcept { return is_running_; }
  const turn& current_turn() const noexcept { return turn_; }
  const call_record& record() const noexcept { return record_; }
  request_view look() const;

 private:
  static constexpr std::string_view by_events = "events";

  const config& settings() const noexcept { return snapshot_->settings; }
  upstream_queue& queue() const noexcept { return *route_.queue; }
  const upstream& to() const noexcept { return queue().settings(); }
  bool is_tunnel() const noexcept { return plan_.form == target_form::tunnel; }
  bool reads_body() const noexcept { return token_account::reads_body(to()); }
  net::awaitable<bool> begin();
  net::awaitable<bool> begin_turn();
  net::awaitable<bool> begin_wait();
  net::awaitable<bool> finish_unserved();
  net::awaitable<bool> attempt_until_done(bool is_granted);
  std::uint64_t bytes_before_turn() const noexcept;
  net::awaitable<bool> read_body(std::uint64_t most);
  void set_deadline(time_point start);
  void keep_first_arrival(request& ask);
  void note_unserved();
  void keep_client();
  bool may_be_kept_by_events() const;
  bool outlasts(duration silence) const noexcept;
  std::string interim_response();
  std::string waiting_events();
  bool has_begun_events() const noexcept { return record_.kept == by_events; }
  net::awaitable<void> end_events();
  bool give_up_turn();
  request make_request();
  std::optional<refusal> refusal_by_quotas() const;
  std::optional<refusal> refusal_by_targets() const;
  std::optional<refusal> refusal_by_money_of_targets() const;
  void expect_cost();
  net::awaitable<std::optional<call_money::lack>> reserve_money();
  std::optional<refusal> reserve_at_deadline(const std::optional<refusal>& last);
  time_point end_of_questions() const noexcept;
  void note_question(const char* name, time_point start);
  bool has_money_at_once();
  net::awaitable<bool> get_money();
  net::awaitable<bool> wait_for_money();
  std::string line_to_join() const;
  bool may_wait_for(const call_money::lack& l) const;
  bool counts_at_target(std::size_t target) const;
  net::awaitable<bool> reserve_at_target(std::size_t target);
  target_set with_money(target_set of);
  target_set serving_model() const;
  target_set without_spent_quotas() const;
  target_set candidates();
  target_set untried();
  bool has_other_target();
  target_set wanted();
  void choose_targets();
  outgoing_body make_framing();
  void make_exchange();
  void aim(exchange& x, std::size_t target);
  bool may_repeat();
  bool pays_for_repeat();
  duration delay_before_repeat() const;
  net::awaitable<void> sleep_before_repeat(attempt_end end);
  net::awaitable<bool> get_turn();
  net::awaitable<bool> get_turn_to_repeat();
  net::awaitable<attempt_end> make_attempt(upstream_place& held);
  net::awaitable<attempt_end> make_hedged_attempt(upstream_place& held, const std::function<void()>& lost);
  void settle(upstream_place& held, attempt_end end);
  bool goes_again(attempt_end end);
  void judge(attempt_end end);
  net::awaitable<bool> refuse();
  net::awaitable<bool> finish();

  bool see_head(const message_head& h, std::string_view body, std::size_t target) override;
  bool drops(const message_head& h, std::string_view body, std::size_t target) override;
  bool may_answer() override { return true; }
  std::string head_for_client(const message_head& h) override;
  void see_piece(std::string_view piece) override { account_->take(piece); }
  // During a tunnel the client is not watched. A tunnel's client may end its sending side, which looks like a
  // disconnect.
  void begin_tunnel() override { host_.unwatch_client(); }
  void watch_client(bool is_on) override { is_on ? host_.watch_client() : host_.unwatch_client(); }

  call_host& host_;
  call_services& services_;
  call_loop& loop_;
  message_parser& parser_;
  // The configuration with which the call began. A reload does not replace it.
  const std::shared_ptr<const config_snapshot> snapshot_;
  const message_head head_;
  call_record record_;
  boxed<refusal> why_;  // set if the gateway itself answers, instead of an upstream
  request_shape plan_;
  route_decision route_;
  turn turn_;

  // The following members are set once the route is known.
  enum class stage : std::uint8_t { head, body, money, turn, attempts };
  stage stage_ = stage::head;
  bool is_reading_ = false;  // the body is being read before the call requests a place at its upstream
  bool has_asked_ = false;
  bool is_patience_short_ = false;  // the deadline comes from the client's own time limit
  bool is_place_lost_ = false;
  bool lacks_money_of_target_ = false;
  bool is_running_ = false;  // an attempt is running
  bool may_return_ = false;  // whether the retry budget paid for the next attempt, which may then repeat a target
  std::uint64_t tag_ = 0;    // the number of the call in request_list
  time_point waits_since_{};
  time_point deadline_{};
  std::optional<request_body> body_;
  std::optional<token_account> account_;
  std::unique_ptr<call_money> money_;  // the cost of the call; null: the upstream has no prices
  outgoing_body framing_;
  std::unique_ptr<client_keeper> keeper_;  // sends messages to the client while the call waits; null: no messages
  boxed<upstream_place> held_;             // the granted place at the upstream, until the attempt takes it
  std::unique_ptr<permit> tunnel_;         // the permit of a granted tunnel, until the attempt takes it
  std::unique_ptr<exchange> exchange_;     // created at the first grant, so that a waiting call takes less memory
  target_set tried_ = 0;                   // the targets that have had an attempt
  target_set barred_ = 0;                  // tried targets that would only refuse the call again
};

}  // namespace canigo::gateway
