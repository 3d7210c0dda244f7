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

/// The cause that ended a call early: an operator's command, or the drain before the process ends. A disconnect of the
/// client is not recorded here; see turn::has_left().
enum class call_ender : std::uint8_t { none, operator_, drain };

/// The result of a wait for a place: either a permit or an error.
struct wait_result {
  error_code error;
  permit granted;
};

/// A call's wait for a place at its upstream: the permits that the call needs before it is sent. The call waits in the
/// upstream's queue, or outside of that queue. Outside of the queue, the call waits for the limit that all instances
/// share, for a tunnel, for money of a budget, or for the delay before a retry. If the call is called off, the turn
/// also stores the reason.
///
/// Threads: only the thread of the call's loop.
class turn {
  /// During the lifetime of this object, the call is marked as waiting, wherever it waits.
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

 public:
  turn(call_services& services, call_loop& loop, call_record& record, const route_decision& route)
      : services_{services}, loop_{loop}, record_{record}, route_{route} {}
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

  /// Sets the request that the call makes to the limits. Precondition: the call's record has the tenant's name.
  void begin(const request& ask, bool is_for_tunnel);
  /// Sets the targets that may serve the call. If `first` is set, the call first waits up to a second for that target
  /// alone.
  void choose(target_set of, std::optional<std::size_t> first = std::nullopt) noexcept;
  /// If the call waits, replaces the targets for which it waits.
  void move_to(target_set of) noexcept;
  /// Tells this object that the call will not wait any more. Afterwards follow() has no effect.
  void end() noexcept { is_on_ = false; }
  const request& ask() const noexcept { return ask_; }

  /// Takes a place at the upstream if that needs no wait. Returns false if no place was taken; then call get_place().
  bool take_place(boxed<upstream_place>& granted);
  /// Waits for a place at the upstream. Returns false if the call got no place; then `why` has the reason. If `why` is
  /// empty, the client has disconnected. `input`: the client's read buffer; if it is empty, its memory is freed during
  /// the wait.
  net::awaitable<bool> get_place(read_buffer& input, boxed<upstream_place>& granted, boxed<refusal>& why);
  /// Like get_place(), but waits for a place at the host and for a permit to open a tunnel.
  net::awaitable<bool> get_tunnel(forwarded_hosts& hosts, read_buffer& input, boxed<upstream_place>& granted,
                                  permit& tunnel, boxed<refusal>& why);
  /// Takes a place at the upstream if one is free without a wait in the queue; otherwise returns an empty place. Use it
  /// for a further attempt of a call, so that this attempt does not overtake waiting calls.
  net::awaitable<upstream_place> spare_place();
  /// Like spare_place(), for the next attempt of the call. Returns an empty place if the call is called off meanwhile.
  net::awaitable<upstream_place> next_place();
  /// Waits outside of the upstream's queue for a permit of the limiter `of`, until `deadline` at most. `what_for`: a
  /// string literal that names the wait. `until`: the latest time at which the wait ends; min() if that time is
  /// unknown. During the wait, waits_until() returns `until`.
  net::awaitable<void> wait_outside(limiter& of, const char* what_for, time_point deadline, time_point until,
                                    wait_result& got);
  /// Waits for the delay before a retry. Returns early if the call is called off.
  net::awaitable<void> sleep(duration d);

  /// Whether the call needs no place any more: its client has disconnected, an operator or a drain has ended the call,
  /// or dismiss() was called.
  bool is_called_off() const noexcept { return has_left_ || ended_by_ != call_ender::none || dismissed_; }
  /// Returns the answer to the client if is_called_off() is true; nullopt if the client has disconnected.
  std::optional<refusal> why_called_off() const;
  bool has_left() const noexcept { return has_left_; }
  call_ender ended_by() const noexcept { return ended_by_; }
  /// Returns the answer to the client if ended_by() is not `none`.
  refusal why_ended() const;
  void end_by_client() noexcept;
  /// Ends the call, and stores the cause `who`. If the function is called several times, the first cause stays stored.
  void end_by(call_ender who) noexcept;
  /// If the call waits, ends the wait, and stores `why` as the answer to the client.
  void dismiss(refusal why);
  /// Ends the current wait, if there is one. Call it if the wait would take too long, or if the process ends.
  void wake() noexcept;
  /// Ends the current wait if waits_until(), its latest end, is later than `end`.
  void wake_if_asleep_until_after(time_point end) noexcept;

  /// Moves the call to the configuration `next` after a reload. The call ends if its upstream or its tenant was
  /// removed, or if it needs a tunnel and `next` allows none. Otherwise it continues to wait. `until_moved`: an object
  /// that is kept alive until the wait under the earlier configuration has ended.
  void follow(const config_snapshot& next, const std::shared_ptr<void>& until_moved) noexcept;

  bool waits() const noexcept { return waits_; }
  /// The name of the call's wait outside of the queue: "shared", "tunnels", "retry", or the name of a wait for a
  /// budget. Empty if the call does not wait outside of the queue.
  std::string_view waits_for() const noexcept { return waits_for_; }
  /// The latest time at which the call's wait outside of the queue ends; min() if that time is unknown.
  time_point waits_until() const noexcept { return sleeps_until_; }

  /// Marks the call as waiting outside of the queue during the lifetime of this object. `what_for`: a string literal.
  /// `has_place`: the call holds a place at the upstream meanwhile.
  class outside {
   public:
    outside(turn& t, const char* what_for, bool has_place = false) noexcept;
    ~outside();
    /// Is emitted by wake(), and if the call is called off.
    net::cancellation_slot stop() const noexcept { return home_.wait_.slot(); }
    outside(const outside&) = delete;
    outside& operator=(const outside&) = delete;

   private:
    const here waiting_;
    turn& home_;
    const bool has_place_;
  };

 private:
  /// If `sticky` is configured, calls with the same key go to the same target. A call waits this long for that target
  /// alone; afterwards it takes any target that may serve it.
  static constexpr duration longest_wait_for_first = std::chrono::seconds{1};

  /// The state of one wait for the limit that all instances share. It is kept between the tries of this wait.
  struct shared_tries {
    target_set full = 0;  // targets that Redis has chosen, and whose caps are used up in this instance
    bool has_asked_rates_again =
        false;  // whether the call has requested this instance's tokens twice, because Redis did not answer in time
  };

  upstream_queue& queue() const noexcept { return *route_.queue; }
  bool asks_again(const error_code& error) const noexcept;
  bool asks_for_less();
  net::awaitable<void> get_first(wait_result& got);
  void take_next_terms() noexcept;
  void look_at_what_binds();
  std::string what_binds() const;
  net::awaitable<void> enter_shared(permit& local, bool is_first, shared_tries& tries, error_code& error,
                                    boxed<upstream_place>& granted);
  void enter(permit& local, redis::permit shared, const error_code& error, target_set& full,
             boxed<upstream_place>& granted);

  call_services& services_;
  call_loop& loop_;
  call_record& record_;
  const route_decision& route_;
  request ask_;
  std::shared_ptr<const flow> share_;  // the tenant's flow; the call's requests belong to it
  // the flow of the call's next request to the limit, if a reload has changed the flow; null: no change
  std::shared_ptr<const flow> next_share_;
  target_set next_targets_ = 0;  // the targets of the next request to the limit, set by move_to(); 0: no change
  // The only target for which the call waits at first. None: the call waits for any target.
  std::optional<std::uint8_t> first_;
  // the answer to the client after dismiss(), or after a reload that removed the call's upstream or tenant
  std::unique_ptr<refusal> dismissed_;
  // the object that was passed to follow(); follow() cancels the wait, and the end of the wait releases this object
  std::shared_ptr<void> until_moved_;
  net::cancellation_signal wait_;
  const char* waits_for_ = "";
  time_point sleeps_until_ = time_point::min();
  bool is_on_ = false;
  bool is_for_tunnel_ = false;
  bool waits_ = false;
  bool has_left_ = false;
  call_ender ended_by_ = call_ender::none;
};

}  // namespace canigo::gateway
