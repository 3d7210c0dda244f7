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

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// A reason other than the client for which a call ends early.
enum class call_ender : std::uint8_t { none, operator_, drain };

/// A call's wait for a place at its upstream: in the queue, and outside of it. Outside, it waits for the limit of all
/// instances, for a tunnel, or for the pause before the call is sent again. It knows the reason if the call does not
/// want the place any more.
///
/// Threads: those of its loop.
class turn {
 public:
  turn(call_services& services, call_loop& loop, call_record& record, const route_decision& route)
      : services_{services}, loop_{loop}, record_{record}, route_{route} {}
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

  /// Call it before the call asks for `ask`. `tenant`: its name, which outlives the turn.
  void begin(const request& ask, std::string_view tenant, bool is_for_tunnel);
  /// The call waits no more. A later reload does not concern it.
  void end() noexcept { is_on_ = false; }
  const request& ask() const noexcept { return ask_; }

  /// Waits for a place. False if there is none: the client has left, or `why` has the reason. `input`: the bytes of the
  /// client; their memory is freed during a long wait.
  net::awaitable<bool> get_place(read_buffer& input, upstream_place& granted, std::optional<refusal>& why);
  /// Waits for a place of the host and one of the tunnels.
  net::awaitable<bool> get_tunnel(forwarded_hosts& hosts, read_buffer& input, upstream_place& granted, permit& tunnel,
                                  std::optional<refusal>& why);
  /// A place that is there at once; empty: there is none. A hedge takes no other call's turn.
  net::awaitable<upstream_place> spare_place();
  /// The pause before a call is sent again. It ends early if the call does not want the place any more.
  net::awaitable<void> sleep(duration d);

  /// Whether the call needs no place any more: its client has left, an operator or a drain has ended it, or it was
  /// dismissed.
  bool is_called_off() const noexcept { return has_left_ || ended_by_ != call_ender::none || dismissed_; }
  /// The answer to the client in that case. Nothing: the client has left, and is told nothing.
  std::optional<refusal> why_called_off() const;
  bool has_left() const noexcept { return has_left_; }
  call_ender ended_by() const noexcept { return ended_by_; }
  /// The answer to the client in that case.
  refusal why_ended() const;
  void end_by_client() noexcept;
  /// The first reason counts.
  void end_by(call_ender who) noexcept;
  /// Ends a wait that is on, for this reason.
  void dismiss(refusal why);
  /// Ends a wait that is on, for a reason that the limit knows.
  void wake() noexcept;
  /// Ends a pause that would last beyond `end`.
  void wake_if_asleep_until_after(time_point end) noexcept;

  /// Goes on with another configuration. The call goes on waiting, unless its upstream or its tenant is missing there.
  /// `until_moved` is held while the call still waits by the earlier one.
  void follow(const config_snapshot& next, const std::shared_ptr<void>& until_moved) noexcept;

  bool waits() const noexcept { return waits_; }
  /// The reason for a wait outside of the queue: "shared", "tunnels" or "retry"; empty: it does not wait there.
  std::string_view waits_for() const noexcept { return waits_for_; }
  /// The end of that wait; min(): unknown.
  time_point waits_until() const noexcept { return sleeps_until_; }

 private:
  /// A wait, from its construction to its destruction.
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
  /// A wait outside of the queue, from its construction to its destruction. `what_for`: a literal.
  class outside {
   public:
    outside(turn& t, std::string_view what_for) noexcept;
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
  void take_next_share() noexcept;
  void look_at_what_binds();
  std::string what_binds() const;
  net::awaitable<redis::permit> get_shared(error_code& error);
  upstream_place enter(permit local, redis::permit shared, const error_code& error);

  call_services& services_;
  call_loop& loop_;
  call_record& record_;
  const route_decision& route_;
  request ask_;
  std::string_view tenant_;
  std::shared_ptr<const flow> share_;       // the share that it asks for
  std::shared_ptr<const flow> next_share_;  // the share that it has to ask for from now on
  std::unique_ptr<refusal> dismissed_;      // a reload has taken away its upstream or its tenant, or a quota is used up
  std::shared_ptr<void> until_moved_;       // the wait that is on is about to end
  net::cancellation_signal wait_;
  std::string_view waits_for_;
  time_point sleeps_until_ = time_point::min();
  bool is_on_ = false;
  bool is_for_tunnel_ = false;
  bool waits_ = false;
  bool has_left_ = false;
  call_ender ended_by_ = call_ender::none;
};

}  // namespace canigo::gateway
