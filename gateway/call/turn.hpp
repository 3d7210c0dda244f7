#pragma once

#include "canigo/error.hpp"
#include "canigo/flow.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/redis/permit.hpp"
#include "canigo/request.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/time.hpp"

#include "gateway/call/call_record.hpp"
#include "gateway/call/call_services.hpp"
#include "gateway/call/route_decision.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/upstream/forwarded_hosts.hpp"
#include "gateway/upstream/upstream_place.hpp"
#include "gateway/upstream/upstream_queue.hpp"
#include "gateway/wire/boxed.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The party that ended a call early, other than its client.
enum class call_ender : std::uint8_t { none, operator_, drain };

/// The result of a wait for a place: either a permit or an error.
struct wait_result {
  error_code error;
  permit granted;
};

/// A call's wait for a place at its upstream, in the upstream's queue and outside of that queue. Outside, the call
/// waits for the limit of all instances, a tunnel, money of a budget, or the delay before a retry. The turn also stores
/// why the call was called off.
///
/// Threads: that of its loop.
class turn {
 public:
  turn(call_services& services, call_loop& loop, call_record& record, const route_decision& route)
      : services_{services}, loop_{loop}, record_{record}, route_{route} {}
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

  /// Sets the request of the call. Precondition: the record has the tenant's name.
  void begin(const request& ask, bool is_for_tunnel);
  /// Sets the targets that may serve the call. If `first` is set, the call waits up to a second for that target alone.
  void choose(target_set of, std::optional<std::size_t> first = std::nullopt) noexcept;
  /// Makes a waiting call wait for other targets instead.
  void move_to(target_set of) noexcept;
  /// Call it when the call has stopped waiting. Afterwards follow() does nothing.
  void end() noexcept { is_on_ = false; }
  const request& ask() const noexcept { return ask_; }

  /// Takes a place if that needs no wait. If it returns false, call get_place().
  bool take_place(boxed<upstream_place>& granted);
  /// Waits for a place. Returns false without one: then `why` has the reason, or the client has disconnected. `input`:
  /// the client's read buffer; if it is empty, its memory is freed during the wait.
  net::awaitable<bool> get_place(read_buffer& input, boxed<upstream_place>& granted, boxed<refusal>& why);
  /// Like get_place(), but waits for a place at the host and a permit for a tunnel.
  net::awaitable<bool> get_tunnel(forwarded_hosts& hosts, read_buffer& input, boxed<upstream_place>& granted,
                                  permit& tunnel, boxed<refusal>& why);
  /// Takes a place if one is free without a wait; else returns an empty place. So a second attempt does not overtake
  /// waiting calls.
  net::awaitable<upstream_place> spare_place();
  /// Waits outside of the upstream's queue for a permit of the limiter `of`. `what_for`: the name of the wait, a string
  /// literal. `until`: the latest end of the wait, for waits_until(); min() if it is unknown.
  net::awaitable<void> wait_outside(limiter& of, const char* what_for, time_point until, wait_result& got);
  /// Waits for the delay before a retry. The wait ends early if the call is called off.
  net::awaitable<void> sleep(duration d);

  /// Whether the call needs no place any more: its client has disconnected, an operator or a drain has ended it, or it
  /// was dismissed.
  bool is_called_off() const noexcept { return has_left_ || ended_by_ != call_ender::none || dismissed_; }
  /// The answer to the client after is_called_off(); nullopt if the client has disconnected.
  std::optional<refusal> why_called_off() const;
  bool has_left() const noexcept { return has_left_; }
  call_ender ended_by() const noexcept { return ended_by_; }
  /// The answer to the client if ended_by() is not `none`.
  refusal why_ended() const;
  void end_by_client() noexcept;
  /// Ends the call, and stores who ended it. If it is called again, the first `who` counts.
  void end_by(call_ender who) noexcept;
  /// Ends the current wait, if there is one. `why`: the answer to the client.
  void dismiss(refusal why);
  /// Ends the current wait, if there is one, because it would take too long or the process ends.
  void wake() noexcept;
  /// Ends a sleep() that would last beyond `end`.
  void wake_if_asleep_until_after(time_point end) noexcept;

  /// Moves the call to the configuration `next` after a reload. The call continues to wait, unless `next` lacks its
  /// upstream or its tenant. `until_moved` is kept until the wait under the earlier configuration has ended.
  void follow(const config_snapshot& next, const std::shared_ptr<void>& until_moved) noexcept;

  bool waits() const noexcept { return waits_; }
  /// The reason for a wait outside of the queue: "shared", "tunnels", "retry", or the name of a wait for a budget.
  /// Empty if the call does not wait outside of the queue.
  std::string_view waits_for() const noexcept { return waits_for_; }
  /// When the wait outside of the queue ends; min() if that is unknown.
  time_point waits_until() const noexcept { return sleeps_until_; }

 private:
  /// Marks the turn as waiting during the lifetime of this object.
  class here {
   public:
    explicit here(turn& t) noexcept : home_{t} { home_.waits_ = true; }
    ~here() {
      home_.waits_ = false;
      home_.sleeps_until_ = time_point::min();
      home_.until_moved_.reset();
    }
    here(const here&) = delete;
    here& operator=(const here&) = delete;

   private:
    turn& home_;
  };
  /// Marks the turn as waiting outside of the queue. `what_for`: a string literal.
  class outside {
   public:
    outside(turn& t, const char* what_for) noexcept;
    ~outside();
    outside(const outside&) = delete;
    outside& operator=(const outside&) = delete;

   private:
    const here waiting_;
    turn& home_;
    const bool has_place_;
  };

  upstream_queue& queue() const noexcept { return *route_.queue; }
  bool asks_again(const error_code& error) const noexcept;
  bool asks_for_less();
  net::awaitable<void> get_first(wait_result& got);
  void take_next_terms() noexcept;
  void look_at_what_binds();
  std::string what_binds() const;
  net::awaitable<void> enter_shared(permit& local, bool is_first, error_code& error, boxed<upstream_place>& granted);
  void enter(permit& local, redis::permit shared, const error_code& error, boxed<upstream_place>& granted);

  call_services& services_;
  call_loop& loop_;
  call_record& record_;
  const route_decision& route_;
  request ask_;
  std::shared_ptr<const flow> share_;       // the flow that requests name
  std::shared_ptr<const flow> next_share_;  // the flow that the next request names after a reload
  target_set next_targets_ = 0;             // the targets that the next request names; 0: no change
  std::optional<std::uint8_t> first_;       // the target for which the call waits alone at first
  std::unique_ptr<refusal> dismissed_;  // set if a reload removed the upstream or the tenant, or a quota was used up
  std::shared_ptr<void> until_moved_;  // the object given to follow(), until the wait that follow() cancelled has ended
  net::cancellation_signal wait_;
  const char* waits_for_ = "";
  time_point sleeps_until_ = time_point::min();
  bool is_on_ = false;
  bool is_for_tunnel_ = false;
  bool waits_ = false;
  bool stays_ = false;                  // the call asks Redis only for the target that this instance has chosen
  bool has_asked_rates_again_ = false;  // after a wait for Redis that ended without an answer
  bool has_left_ = false;
  call_ender ended_by_ = call_ender::none;
};

}  // namespace canigo::gateway
