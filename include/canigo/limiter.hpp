#pragma once

#include "canigo/detail/admission/permit_waiter.hpp"
#include "canigo/detail/context/misuse.hpp"
#include "canigo/limit_handle.hpp"
#include "canigo/limit_options.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace canigo {

namespace detail {
class shared_places;
}

struct shared_cap_options {
  std::uint64_t permits = 1;  ///< most that are out at once, of all limiters together; 1 to 2^62
};

/// One cap on concurrency for several limiters, each of which has rates, classes and a queue of its own:
///
///     canigo::shared_cap connections{{.permits = 2}};
///     canigo::limiter reports{io, {.rates = {{canigo::rate::per_minute(3)}}, .share = connections}};
///     canigo::limiter payments{io, {.rates = {{canigo::rate::per_second(100)}}, .share = connections}};
///
/// A request takes a place of the cap in one step with the tokens of its limiter. While it waits for its rate, it holds
/// no place. At no instant do the permits that are out, of all limiters together, exceed the cap.
///
/// A place that comes back goes, in the same instant, to a limiter whose first waiter could go now. The most important
/// class goes first; inside a class, the limiter that has lacked a place for longest. So no limiter starves another
/// one of the same class, even with a long queue.
///
/// A copy is the same cap. The cap may be destroyed before its limiters and their permits: they keep what they need of
/// it. The limiters may live on different execution contexts.
///
/// Threads: any, all members, at once. Allocates: in the constructor.
class shared_cap {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  explicit shared_cap(const shared_cap_options& options);
  shared_cap(const shared_cap& other) = default;  // and no move: every cap keeps its places
  shared_cap& operator=(const shared_cap& other) = default;
  ~shared_cap() = default;

  /// Changes the number of permits, 1 to 2^62. Revokes none: after a smaller number, no request is granted until enough
  /// permits have been dropped.
  void resize(std::uint64_t permits);

  /// The permits of all limiters that are out, or granted and on their way.
  std::uint64_t held() const noexcept;
  /// All permits; less than `held()` for a while after a resize() to less.
  std::uint64_t permits() const noexcept;

 private:
  friend class limiter;
  std::shared_ptr<detail::shared_places> places_;
};

/// One of several supplies of a limiter, of which a permit comes from one: a key, a server, a region.
struct alternative_options {
  std::string name = {};                  ///< for permits, statistics and texts; unique among those that have one
  std::vector<rate_limit> rates = {};     ///< all must admit a request; up to 16
  std::uint64_t concurrency = unlimited;  ///< most permits of it out at once; 1 or more
  int prefer = 1;                         ///< of those that have room, one with the lowest number serves the request
};

struct limiter_options {
  std::vector<rate_limit> rates = {};     ///< all must admit a request; up to 16, or none if there is a cap or a share
  std::uint64_t concurrency = unlimited;  ///< most permits out at once, of any weight; 1 or more
  std::optional<shared_cap> share = {};   ///< a cap that several limiters share; each permit takes one place of it
  /// Supplies of which each permit takes from one, as well as from the limits above; up to 64. Not together with a
  /// share, a slack, or shadow mode.
  std::vector<alternative_options> alternatives = {};
  int priorities = 1;                           ///< classes 0 (first) … priorities-1; 1 to 1024
  std::size_t queue_limit = 100'000;            ///< most waiters, of all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< how a full queue treats a newcomer; any but overflow::wait
  duration ageing = duration::max();        ///< a waiter rises one class per `ageing` waited; more than 0; max: never
  shedding_options shedding = {};           ///< which waiters end in an overload; default: none
  duration slack = duration::zero();        ///< a wake-up may wait so long to meet others; 0s to 1s
  enforcement mode = enforcement::enforce;  ///< shadow: requests go at once, and stats() counts what would have been
  std::string name = {};                    ///< for the texts of errors
};

/// One alternative in numbers.
struct alternative_stats {
  std::string name;
  std::vector<std::int64_t> tokens;             ///< of each rate: available now; below 0: a debt
  std::uint64_t held = 0;                       ///< its permits that are out, or granted and on their way
  std::uint64_t concurrency = 0;                ///< most permits out at once
  std::uint64_t granted = 0;                    ///< all permits so far
  time_point paused_until = time_point::min();  ///< in the past: it is not paused
  bool is_closed = false;
};

struct limiter_stats : queue_stats {
  std::vector<std::int64_t> tokens;  ///< of each rate: available now; below 0: a debt
  std::uint64_t held = 0;            ///< permits that are out, or granted and on their way
  std::uint64_t concurrency = 0;     ///< most permits out at once; after a cut, `held` may be more for a while
  binding_stats binding;             ///< for how long each limit has held up the first in the queue
  shadow_stats shadow;               ///< the counts of shadow mode
  std::vector<alternative_stats> alternatives;
};

/// One alternative of a limiter, to pause, close or change it while requests wait.
///
/// A change acts at once, for all waiters, and only on this alternative. A value of two words. The limiter must live
/// longer.
///
/// Threads: any. Allocates: set_rate() and set_burst() for the text of an error, close() for a set of alternatives that
/// no waiter has had before.
class alternative_handle {
 public:
  /// Its index in limiter_options::alternatives: the number of its bit in request::alternatives.
  std::size_t index() const noexcept { return index_; }
  std::string_view name() const noexcept;

  /// Grants nothing from it until `t`, or until resume(): for an upstream that has refused a call. Its tokens gather
  /// meanwhile. Other alternatives go on. Of several calls the last one counts.
  void pause_until(time_point t);
  /// Like pause_until(), but a pause that ends later stays.
  void extend_pause(time_point t);
  void pause() { pause_until(time_point::max()); }
  void resume() { pause_until(time_point::min()); }
  /// Closes it for good. A waiter that only closed ones could serve ends with errc::stopped, as do later requests. Its
  /// permits that are out stay. Idempotent.
  void close();

  /// See the members of limiter with these names; `index` is that of a rate of this alternative.
  void set_rate(std::size_t index, const canigo::rate& r);
  void set_burst(std::size_t index, std::uint64_t burst);
  void set_concurrency(std::uint64_t concurrency);
  void lower_tokens(std::size_t index, std::uint64_t most);

 private:
  friend class limiter;
  alternative_handle(detail::admission& home, std::size_t index) noexcept : home_{&home}, index_{index} {}

  detail::admission* home_;
  std::size_t index_;
};

/// Several limits as one. All rates and the cap on concurrency admit a request in one step, or none of them does.
///
/// So a request holds nothing of one limit while it waits for another. Each rate keeps the promises of
/// canigo::scheduler; the cap and the queue keep those of canigo::semaphore. A request takes `request.tokens` of every
/// rate, and one place of the cap. If the real usage is known only afterwards, settle it with the permit:
/// `p.settle(used)`.
///
/// Rates may count different units, such as requests and tokens. `request.tokens` is then the amount of the first
/// rate's unit, and `request.amounts` names those of the others: `{.amounts = {{"tokens", 1200}}}`. If a request names
/// only some units, it takes nothing of the rest, and does not wait for them, even if they are in debt. Settle each
/// unit by its name: `p.settle("tokens", 1130)`.
///
/// The members for asking, pausing, listing and stopping are those of every limit: limit_handle.
///
/// With `alternatives`, a request also takes from exactly one of them, in the same step: two API keys behind one queue,
/// for example. The permit says which one, `p.alternative()`, and gives its place and tokens back there:
///
///     canigo::limiter keys{io,
///                          {.alternatives = {{.name = "team", .rates = {{rate::per_minute(500), 20}}},
///                                            {.name = "spare", .rates = {{rate::per_minute(60), 5}}, .prefer = 2}}}};
///     canigo::permit p = co_await keys.acquire();
///     call(p.alternative_name());
///
/// An alternative can serve a request if it has room in all of its limits. Among several it is the one with the lowest
/// `prefer`, then the one with the most room left as a share of its burst, then the first. `request.alternatives` names
/// those that may serve it. Waiters keep their order: the first takes the first room that fits it. It keeps the room of
/// its alternatives from those behind it, however small they are, and holds up no waiter for other alternatives. Flows
/// share the alternatives together, by weight; one that had to wait for its alternatives has no credit for that.
///
/// At most 256 different sets of alternatives wait at once; a request with another one ends with errc::queue_full. A
/// request that no alternative of its set can ever serve ends with errc::too_large. If all of these are closed, it ends
/// with errc::stopped.
///
/// Errors, cancellation, threads, lifetime: as canigo::scheduler and canigo::semaphore.
class limiter : public limit_handle<detail::permit_waiter> {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  limiter(const net::any_io_executor& executor, const limiter_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  limiter(ExecutionContext& context, const limiter_options& options)
      : limiter{net::any_io_executor{context.get_executor()}, options} {}
  /// Does not compile: the compiler's message says what to write.
  template <detail::any_context Context>
  limiter(const Context&, const detail::misfit_limiter_options&) : limiter{net::any_io_executor{}, limiter_options{}} {
    static_assert(!detail::any_context<Context>,
                  "limiter: a field is another class's, or has another type: .rates = {rate::per_second(5)}, or "
                  ".rates = {{.rate = {10, 3s}, .burst = 5}}, .concurrency is a whole number");
  }
  /// Does not compile: the compiler's message says what to write.
  template <detail::any_context Context, detail::bare_value<limiter_options> Value>
  limiter(const Context&, const Value&) : limiter{net::any_io_executor{}, limiter_options{}} {
    static_assert(!detail::any_context<Context>,
                  "limiter: name the field: limiter{io, {.rates = {rate::per_second(5)}, .concurrency = 4}}");
  }

  /// Asks by class alone. The other forms, and async_acquire, pause, resume and stop, are those of limit_handle.
  using limit_handle::acquire;
  using limit_handle::try_acquire;
  [[nodiscard("co_await it")]] net::awaitable<permit> acquire(int priority);
  [[nodiscard("co_await it")]] net::awaitable<permit> acquire(int priority, std::error_code& error) {
    return acquire(request{.priority = priority}, error);
  }
  [[nodiscard("was it granted?")]] std::optional<permit> try_acquire(int priority) {
    return try_acquire(request{.priority = priority});
  }

  /// Changes a limit for all waiters, at once. A rate keeps its tokens, up to the new burst.
  ///
  /// Errors: errc::invalid_argument for an unknown index, and for a value outside its range. Nothing changes then.
  void set_rate(std::size_t index, const canigo::rate& r);
  void set_burst(std::size_t index, std::uint64_t burst);
  void set_concurrency(std::uint64_t concurrency);

  /// Drops tokens of a rate until no more than `most` are there: for a quota whose server says how much is left. A rate
  /// that has fewer keeps its tokens, or its debt. Later tokens are released as usual.
  ///
  /// Errors: errc::invalid_argument for an unknown index.
  void lower_tokens(std::size_t index, std::uint64_t most);

  /// An alternative by its index in limiter_options::alternatives, or by its name.
  ///
  /// Errors: errc::invalid_argument if there is none.
  alternative_handle alternative(std::size_t index);
  alternative_handle alternative(std::string_view name);

  /// Tells which limit holds up the first waiter in the queue, and when that ends.
  wait_reason why_waiting() const;

  /// A lower bound on the wait of `r` if it came now. It knows the rates and a pause, but not when permits come back.
  /// With alternatives, it is the least over those that may serve `r`.
  ///
  /// Throws std::system_error for a request that can never be granted.
  duration estimate(request r) const;

  /// Allocates.
  limiter_stats stats() const;
};

}  // namespace canigo
