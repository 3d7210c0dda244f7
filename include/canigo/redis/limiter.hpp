#pragma once

#include "canigo/limiter.hpp"
#include "canigo/net.hpp"
#include "canigo/rate.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/failure_mode.hpp"
#include "canigo/redis/limit_handle.hpp"
#include "canigo/redis/permit.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::redis {

struct limiter_options {
  /// All of these rates must admit a request. Up to 16 rates are allowed, with up to 5 units. The list may be empty
  /// only if there is a cap. Each burst is 1 to 2^31, and each bucket must fill in less than 285 years. A rate is n
  /// tokens per m µs, where n/m is a reduced fraction of whole numbers. Then n times the burst must be below 2^53. The
  /// error message names the greatest allowed burst. `initial_tokens` must be 0: buckets start empty. `window` must be
  /// rate_window::average.
  std::vector<rate_limit> rates = {};
  std::uint64_t concurrency = unlimited;  ///< max number of permits in use, in all processes; 1 to 2^31, or unlimited
  /// Alternatives, such as several API keys; up to 64. Each request takes tokens and a slot from one alternative, and
  /// also from `rates` and `concurrency` above. Rates of alternatives have the same bounds as `rates`. The limiter and
  /// its alternatives have at most 127 rates together. If an alternative has a `concurrency`, the limiter counts as a
  /// limiter with a cap.
  std::vector<alternative_options> alternatives = {};
  /// with a cap: how long a crashed process keeps its permits; 10 ms to 1 day
  duration lease = std::chrono::seconds{5};
  int priorities = 1;                ///< number of priority classes, 1 to 256; class 0 goes first
  std::size_t queue_limit = 10'000;  ///< max number of waiters in this process; 1 or more
  overflow on_overflow =
      overflow::reject_new;  ///< how a full queue treats a new request; only waiters of this process are evicted
  /// behavior while Redis does not answer; a limiter with a cap must use mode closed
  failure_mode on_failure = failure_mode::closed();
  /// if on_failure is closed: waiters end after this time without an answer of Redis; max: never
  duration give_up = std::chrono::seconds{10};
  std::string space = "default";  ///< separates limits of the same name in one Redis
  /// With a cap: whether to grant nothing for the length of one lease after Redis has lost its data. If false, the cap
  /// may be exceeded then.
  bool quarantine = true;
};

/// A handle on one alternative of a limiter in Redis, to pause or change it for all processes while requests wait.
///
/// A change takes effect immediately, for all waiters, and only for this alternative. A handle is a value of two words.
/// The limiter must outlive its handles. An alternative in Redis can't be closed.
///
/// Threads: any.
class alternative_handle {
 public:
  /// The index in limiter_options::alternatives, and the number of this alternative's bit in request::alternatives.
  std::size_t index() const noexcept { return index_; }
  std::string_view name() const noexcept;

  /// Grants nothing from this alternative, in any process, until `t`, or until resume(). The alternative's tokens
  /// accumulate meanwhile. Other alternatives are not paused. A later call by any process replaces an earlier one.
  void pause_until(time_point t);
  /// Like pause_until(), but never shortens a pause, even if another process has set it.
  void extend_pause(time_point t);
  void pause() { pause_until(time_point::max()); }
  void resume() { pause_until(time_point::min()); }

  /// These functions change the alternative's limits for all processes and their waiters immediately. `index`: 0 is the
  /// alternative's first rate.
  ///
  /// Throws std::system_error (errc::invalid_argument) for an unknown index, for a value out of range, and for the
  /// concurrency of a limiter without any cap. Then nothing changes.
  void set_rate(std::size_t index, const canigo::rate& r);
  void set_burst(std::size_t index, std::uint64_t burst);
  void set_concurrency(std::uint64_t concurrency);

 private:
  friend class limiter;
  alternative_handle(detail::ledger& home, std::size_t index) noexcept : home_{&home}, index_{index} {}

  detail::ledger* home_;
  std::size_t index_;
};

/// Several limits in one object, shared by all processes. A request is admitted by all rates and the cap on concurrency
/// in one step of Redis, or by none.
///
/// So a request takes no tokens of one rate while it waits for another rate or for the cap. The documentation of
/// redis::scheduler also holds for each rate, and that of redis::semaphore for the cap, the leases and the queue. A
/// request takes `request.tokens` of every rate, and one slot of the cap. If the real usage is known only afterwards,
/// settle it with the permit: `p.settle(used)`.
///
/// Rates may count different units, such as requests and tokens. Then `request.tokens` is the amount in the unit of the
/// first rate, and `request.amounts` has the amounts in other units: `{.amounts = {{"tokens", 1200}}}`. If a request
/// names no amount of a unit, it takes nothing of that unit, and does not wait for that unit, even if the unit's
/// buckets are in debt. Settle each unit by its name: `p.settle("tokens", 1130)`.
///
/// All processes must have the same number of rates, with the same units in the same order, and all of them or none
/// must have a cap. Their alternatives must have the same names, in the same order. If a process differs in this, its
/// acquires end with redis::error::other_shape as long as other processes use the limit, in every failure mode. All
/// other options should be the same. If they differ, the options of the process that called Redis last are used. The
/// setters and pause_until() change the limit for all processes, as those of redis::scheduler do.
///
/// A permit of a limiter without a cap is only for settling: it has no lease, and a crash loses nothing. A permit of a
/// limiter with a cap ends with its lease, as that of a semaphore does.
///
/// With `alternatives`, a request also takes from exactly one of them, in the same step of Redis. An alternative can
/// serve a request if all of its limits and all common limits allow it. If several can serve it, the limiter takes the
/// one with the lowest `prefer`, then the one with the largest free part, then the first one. The free part of an
/// alternative is the smallest free part of its cap and of the bursts that the request needs. `p.alternative()` of the
/// permit says which one was taken; the slot and the tokens of the permit return to that alternative. The first waiter
/// of all processes takes the first free capacity that it can use. Later waiters can't take capacity of the
/// alternatives that the first waiter waits for. They can take capacity of other alternatives.
///
/// The waiting requests may have at most 256 different sets of alternatives; a request with a further set ends with
/// errc::queue_full. A request that no alternative of its set can ever serve ends with errc::too_large. When a request
/// arrives, alternatives whose bursts are too small for it are removed from its set. If a burst becomes too small for a
/// waiter later, its alternative is removed from the waiter's set. If a burst grows, the sets of waiters do not change.
///
/// While Redis does not answer, a request in mode `local(share)` takes tokens from one alternative, whose rates are
/// multiplied by `share`. In mode `open`, the alternatives with the lowest `prefer` take turns.
///
/// The base class redis::limit_handle has the members for acquiring, pausing and stopping.
///
/// Errors: as for redis::semaphore. errc::invalid_argument for a unit that the limiter does not have, or that is named
/// twice; the text names the unit and lists the known units. errc::too_large for an amount above the smallest burst
/// of its unit; the text names the unit, the amount and the range. After both errors nothing is consumed. Without a
/// cap, errc::lease_lost does not occur. If `on_failure` is not closed, errc::store_unavailable and redis::error occur
/// as for redis::scheduler.
/// Cancellation: terminal, partial, total. The request leaves the queue. A grant that Redis has already sent is given
/// back, with all units.
/// Threads: any thread may call any member at any time.
/// Lifetime: destroying this object ends every waiter with errc::stopped. The execution context may be destroyed first.
class limiter : public limit_handle<detail::place_waiter> {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range; the text names it and the range.
  limiter(client& c, std::string_view name, const limiter_options& options);

  /// The overload below is for requests that have only a priority class. The base class limit_handle has the other
  /// overloads, and async_acquire(), pause(), resume() and stop().
  using limit_handle::acquire;
  [[nodiscard]] net::awaitable<permit> acquire(int priority) { return acquire(request{.priority = priority}); }

  /// set_rate(), set_burst() and set_concurrency() change a limit for all processes and their waiters immediately. A
  /// rate keeps its available tokens, up to the new burst.
  ///
  /// Throws std::system_error (errc::invalid_argument) for an unknown index, for a value out of range, and for the
  /// concurrency of a limiter that was made without a cap. Then nothing changes.
  void set_rate(std::size_t index, const canigo::rate& r);
  void set_burst(std::size_t index, std::uint64_t burst);
  void set_concurrency(std::uint64_t concurrency);

  /// The handle on an alternative, by its index in limiter_options::alternatives, or by its name.
  ///
  /// Throws std::system_error (errc::invalid_argument) if there is no such alternative.
  alternative_handle alternative(std::size_t index);
  alternative_handle alternative(std::string_view name);

  /// A lower bound on the time that `r` would wait if it arrived now. It is computed from the latest answer of Redis
  /// and the waiters of this process. It considers rates and a pause, but not when permits are released. With
  /// alternatives, it is the lowest bound of the alternatives that may serve `r`. Before the first answer of Redis, it
  /// considers only pauses that this process has set. After the destruction of the context, it is duration::max().
  ///
  /// Throws std::system_error for a request that can never be granted.
  duration estimate(request r) const;
};

}  // namespace canigo::redis
