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
  std::uint64_t permits = 1;  ///< max number of permits in use, all limiters together; 1 to 2^62
};

/// One cap on concurrency that several limiters share. Each limiter has its own rates, classes and queue:
///
///     canigo::shared_cap connections{{.permits = 2}};
///     canigo::limiter reports{io, {.rates = {{canigo::rate::per_minute(3)}}, .share = connections}};
///     canigo::limiter payments{io, {.rates = {{canigo::rate::per_second(100)}}, .share = connections}};
///
/// A request takes a slot of the cap and the tokens of its limiter in one step. While it waits for its rate, it holds
/// no slot. The permits in use of all limiters together never exceed the cap.
///
/// A released slot goes immediately to a limiter whose first waiter can use it. Limiters whose first waiter has the
/// most important class go first; among equal classes, the limiter that has waited longest for a slot. So limiters of
/// the same class can't starve each other, even with a long queue.
///
/// A copy refers to the same cap. The cap may be destroyed before its limiters and their permits, which share ownership
/// of the slots. The limiters may live on different execution contexts.
///
/// Threads: any thread may call any member at any time. Allocates: in the constructor.
class shared_cap {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  explicit shared_cap(const shared_cap_options& options);
  shared_cap(const shared_cap& other) = default;  // there is no move, because a moved-from cap would have no slots
  shared_cap& operator=(const shared_cap& other) = default;
  ~shared_cap() = default;

  /// Changes the number of permits, 1 to 2^62. Issued permits stay valid: if more are in use than the new number, no
  /// request is granted until enough of them are released.
  void resize(std::uint64_t permits);

  /// The number of permits in use by all limiters together, including permits that are granted but not yet delivered.
  std::uint64_t held() const noexcept;
  /// The max number of permits; for a while after a resize() to a smaller number, held() may exceed it.
  std::uint64_t permits() const noexcept;

 private:
  friend class limiter;
  std::shared_ptr<detail::shared_places> places_;
};

/// Options of an alternative of a limiter, such as a key, a server or a region. Each permit comes from one alternative.
struct alternative_options {
  std::string name = {};                  ///< appears in permits, statistics and error messages; unique unless empty
  std::vector<rate_limit> rates = {};     ///< all of these rates must admit a request; up to 16
  std::uint64_t concurrency = unlimited;  ///< max number of permits of this alternative in use; 1 or more
  int prefer = 1;  ///< among alternatives with free capacity, the one with the lowest `prefer` serves the request
};

/// A limit that applies only to requests that name it, for example to the calls of one model of an API.
struct sublimit_options {
  std::string name = {};                  ///< appears in statistics and error messages
  std::vector<rate_limit> rates = {};     ///< all of these rates must admit a request that names the sublimit; up to 16
  std::uint64_t concurrency = unlimited;  ///< max number of permits in use by the sublimit's requests; 1 or more
};

struct limiter_options {
  /// all of these rates must admit a request; up to 16; may be empty only if another limit is set: `concurrency`,
  /// `share`, `alternatives` or `sublimits`
  std::vector<rate_limit> rates = {};
  std::uint64_t concurrency = unlimited;  ///< max number of permits in use, of any weight; 1 or more
  std::optional<shared_cap> share = {};   ///< a cap that several limiters share; each permit takes one slot of it
  /// Alternatives, such as several API keys; up to 64. Each permit takes from one of them, in addition to the limits
  /// above. Can't be combined with `share`, `slack` or shadow mode.
  std::vector<alternative_options> alternatives = {};
  /// Sublimits, up to 256. A request may name one sublimit, which must then admit it in addition to the limits above.
  /// Can't be combined with `share`, `slack` or shadow mode.
  std::vector<sublimit_options> sublimits = {};
  int priorities = 1;                           ///< number of priority classes, 1 to 1024; class 0 is most important
  std::size_t queue_limit = 100'000;            ///< max number of waiters, all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< how a full queue treats a new request; overflow::wait is invalid
  duration ageing = duration::max();  ///< waiting time after which a waiter rises by one class; more than 0; max: never
  shedding_options shedding = {};     ///< ends waiters during an overload; default: never
  duration slack = duration::zero();  ///< how late a wake-up may be, so that several wake-ups are combined; 0s to 1s
  /// shadow: the limiter grants each request immediately; stats() counts how requests would end without shadow mode
  enforcement mode = enforcement::enforce;
  std::string name = {};  ///< appears in error messages
};

/// The statistics of one alternative of a limiter.
struct alternative_stats {
  std::string name;
  std::vector<std::int64_t> tokens;  ///< available tokens of each rate; below 0: a debt
  std::uint64_t held = 0;            ///< permits in use, including those that are granted but not yet delivered
  std::uint64_t concurrency = 0;     ///< max number of permits of this alternative in use
  std::uint64_t granted = 0;         ///< number of permits granted so far
  time_point paused_until = time_point::min();  ///< when the pause of the alternative ends; in the past: not paused
  bool is_closed = false;
};

/// The statistics of one sublimit of a limiter.
struct sublimit_stats {
  std::string name;
  std::vector<std::int64_t> tokens;  ///< available tokens of each rate; below 0: a debt
  std::uint64_t held = 0;            ///< permits in use, including those that are granted but not yet delivered
  std::uint64_t concurrency = 0;     ///< max number of permits of this sublimit in use
  std::uint64_t granted = 0;         ///< number of permits granted so far
};

struct limiter_stats : queue_stats {
  std::vector<std::int64_t> tokens;  ///< available tokens of each rate; below 0: a debt
  std::uint64_t held = 0;            ///< permits in use, including those that are granted but not yet delivered
  /// max number of permits in use; after it was lowered, `held` may exceed it for a while
  std::uint64_t concurrency = 0;
  binding_stats binding;  ///< how long each limit has held up the first waiter
  shadow_stats shadow;    ///< how requests that shadow mode granted would have ended without it
  std::vector<alternative_stats> alternatives;
  std::vector<sublimit_stats> sublimits;
};

/// A handle on one alternative of a limiter, to pause, close or change it while requests wait.
///
/// A change takes effect immediately, for all waiters, and only for this alternative. A handle is a value of two words.
/// The limiter must outlive its handles.
///
/// Threads: any. Allocates: set_rate() and set_burst() for the text of an error; close(), if the remaining alternatives
/// of a waiter form a set that no waiter has had before.
class alternative_handle {
 public:
  /// The index of this alternative in limiter_options::alternatives. It is also the number of the alternative's bit in
  /// request::alternatives.
  std::size_t index() const noexcept { return index_; }
  std::string_view name() const noexcept;

  /// Grants nothing from this alternative until `t`, or until resume(). Use it after an upstream has refused a call.
  /// The alternative's tokens accumulate meanwhile. Other alternatives are not paused. A later call of pause_until()
  /// replaces an earlier one.
  void pause_until(time_point t);
  /// Like pause_until(), but never shortens a pause.
  void extend_pause(time_point t);
  void pause() { pause_until(time_point::max()); }
  void resume() { pause_until(time_point::min()); }
  /// Closes this alternative forever. A request whose alternatives are all closed ends with errc::stopped. Issued
  /// permits of a closed alternative stay valid. Idempotent.
  void close();

  /// Like the members of limiter with the same names; `index` is the index of a rate of this alternative.
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

/// A handle on one sublimit of a limiter, to change the sublimit while requests wait.
///
/// A change takes effect immediately, for all waiters, and only for this sublimit. A handle is a value of two words.
/// The limiter must outlive its handles.
///
/// Threads: any. Allocates: for the text of an error.
class sublimit_handle {
 public:
  /// The number of the sublimit, for request::sublimit.
  int number() const noexcept { return static_cast<int>(number_); }

  /// Like the members of limiter with the same names; `index` is the index of a rate of this sublimit.
  void set_rate(std::size_t index, const canigo::rate& r);
  void set_burst(std::size_t index, std::uint64_t burst);
  void set_concurrency(std::uint64_t concurrency);

 private:
  friend class limiter;
  sublimit_handle(detail::admission& home, std::size_t number) noexcept : home_{&home}, number_{number} {}

  detail::admission* home_;
  std::size_t number_;
};

/// Several limits in one object. All rates and the cap on concurrency admit a request in one step, or none of them
/// does.
///
/// So a request holds nothing of one limit while it waits for another. Each rate keeps the promises of
/// canigo::scheduler; the cap and the queue keep those of canigo::semaphore. A request takes `request.tokens` of every
/// rate, and one slot of the cap. If the real usage is known only afterwards, settle it with the permit:
/// `p.settle(used)`.
///
/// Rates may count different units, such as requests and tokens. Then `request.tokens` is the amount in the unit of the
/// first rate, and `request.amounts` has the amounts in other units: `{.amounts = {{"tokens", 1200}}}`. If a request
/// names no amount of a unit, it takes nothing of that unit. It also does not wait for the rates of that unit, even if
/// they are in debt. Settle each unit by its name: `p.settle("tokens", 1130)`.
///
/// The base class limit_handle has the members for acquiring, pausing, listing and stopping.
///
/// With `alternatives`, a request also takes from exactly one of them, in the same step: for example two API keys
/// behind one queue. `p.alternative()` of the permit says which one; the slot and the tokens of the permit return to
/// that alternative:
///
///     canigo::limiter keys{io,
///                          {.alternatives = {{.name = "team", .rates = {{rate::per_minute(500), 20}}},
///                                            {.name = "spare", .rates = {{rate::per_minute(60), 5}}, .prefer = 2}}}};
///     canigo::permit p = co_await keys.acquire();
///     call(p.alternative_name());
///
/// An alternative can serve a request if all of its rates and its cap allow it. If several alternatives can, the
/// limiter takes the one with the lowest `prefer`, then the one with the largest free part, then the first one. The
/// free part of an alternative is the smallest free part of its cap and of the bursts that the request needs.
/// `request.alternatives` names the alternatives that may serve the request. Waiters keep their order: the first waiter
/// takes the first free capacity that it can use. Later waiters, even smaller ones, can't take capacity of the
/// alternatives that the first waiter waits for. They can take capacity of other alternatives. Flows share all
/// alternatives together, by weight; a flow gets no compensation for a wait for its alternatives.
///
/// Each waiter has a pair: its set of alternatives, and its sublimit. All waiters at one time have at most 1,024
/// different pairs; a request with a further pair ends with errc::queue_full. A request that no alternative of its set
/// can ever serve ends with errc::too_large. If all alternatives of its set are closed, the request ends with
/// errc::stopped.
///
/// With `sublimits`, a request may name one sublimit, `{.sublimit = 0}`, and takes from this sublimit in the same step.
/// A waiter whose sublimit lacks capacity holds up only the later requests of that sublimit. A waiter that waits for an
/// alternative does not reserve its sublimit. So later requests of the same sublimit may be served by other
/// alternatives before this waiter. The waiter waits as long as these requests use up the sublimit, and other requests
/// use up its alternative.
///
/// Errors, cancellation, threads and lifetime are those of canigo::scheduler and canigo::semaphore.
class limiter : public limit_handle<detail::permit_waiter> {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  limiter(const net::any_io_executor& executor, const limiter_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  limiter(ExecutionContext& context, const limiter_options& options)
      : limiter{net::any_io_executor{context.get_executor()}, options} {}
  /// Rejects options with a wrong field, or with a field of the wrong type, at compile time. The compiler's message
  /// names the right types.
  template <detail::any_context Context>
  limiter(const Context&, const detail::misfit_limiter_options&) : limiter{net::any_io_executor{}, limiter_options{}} {
    static_assert(!detail::any_context<Context>,
                  "limiter: a field is another class's, or has another type: .rates = {rate::per_second(5)}, or "
                  ".rates = {{.rate = {10, 3s}, .burst = 5}}, .concurrency is a whole number");
  }
  /// Rejects a plain value instead of options at compile time. The compiler's message shows how to name the field.
  template <detail::any_context Context, detail::bare_value<limiter_options> Value>
  limiter(const Context&, const Value&) : limiter{net::any_io_executor{}, limiter_options{}} {
    static_assert(!detail::any_context<Context>,
                  "limiter: name the field: limiter{io, {.rates = {rate::per_second(5)}, .concurrency = 4}}");
  }

  /// Overloads for requests that have only a priority class. The base class limit_handle has the other overloads, and
  /// also async_acquire(), pause(), resume() and stop().
  using limit_handle::acquire;
  using limit_handle::try_acquire;
  [[nodiscard("co_await it")]] net::awaitable<permit> acquire(int priority);
  [[nodiscard("co_await it")]] net::awaitable<permit> acquire(int priority, std::error_code& error) {
    return acquire(request{.priority = priority}, error);
  }
  [[nodiscard("was it granted?")]] std::optional<permit> try_acquire(int priority) {
    return try_acquire(request{.priority = priority});
  }

  /// set_rate(), set_burst() and set_concurrency() change a limit for all waiters immediately. A rate keeps its
  /// available tokens, up to the new burst.
  ///
  /// Errors: errc::invalid_argument for an unknown index, and for a value out of range. Then nothing changes.
  void set_rate(std::size_t index, const canigo::rate& r);
  void set_burst(std::size_t index, std::uint64_t burst);
  void set_concurrency(std::uint64_t concurrency);

  /// Lowers the available tokens of a rate to at most `most`. Use it for a quota whose server reports the remaining
  /// amount. If fewer than `most` tokens are available, nothing changes. Later tokens are released as usual.
  ///
  /// Errors: errc::invalid_argument for an unknown index.
  void lower_tokens(std::size_t index, std::uint64_t most);

  /// The handle on an alternative, by its index in limiter_options::alternatives, or by its name.
  ///
  /// Errors: errc::invalid_argument if there is no such alternative.
  alternative_handle alternative(std::size_t index);
  alternative_handle alternative(std::string_view name);

  /// The handle on a sublimit, by its index in limiter_options::sublimits, or by the number that add_sublimit()
  /// returned.
  ///
  /// Errors: errc::invalid_argument if there is no such sublimit.
  sublimit_handle sublimit(std::size_t number);
  /// Adds a sublimit, and returns its number. At `since` its rates have their initial tokens, and begin to release
  /// tokens.
  ///
  /// Errors: errc::invalid_argument for a value out of range, and for a unit that no rate of the limiter had at its
  /// construction. The error is also thrown if the limiter was made without sublimits, or already has 256 of them.
  int add_sublimit(const sublimit_options& o, time_point since);

  /// Returns which limit holds up the first waiter in the queue, and until when.
  wait_reason why_waiting() const;

  /// A lower bound on the time that `r` would wait if it arrived now. The bound takes rates and a pause into account,
  /// but not the time until permits are released. With alternatives, it is the least bound of the alternatives that may
  /// serve `r`.
  ///
  /// Throws std::system_error for a request that can never be granted.
  duration estimate(request r) const;

  /// Allocates memory for the returned statistics.
  limiter_stats stats() const;
};

}  // namespace canigo
