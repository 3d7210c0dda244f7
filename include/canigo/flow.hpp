#pragma once

#include "canigo/algorithms/histogram.hpp"
#include "canigo/detail/admission/flow_host.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace canigo {

namespace detail {
class admission;
class pool_flows;
}  // namespace detail

template <class Waiter>
class limit_handle;
template <class R>
class pool_handle;

struct flow_options {
  std::uint32_t weight = 1;               ///< its share, beside those of the others; 1 to 10,000
  std::vector<rate_limit> rates = {};     ///< up to 16 ceilings, of units of the limit; no burst above the limit's
  std::uint64_t concurrency = unlimited;  ///< its cap on places; 1 or more, of a pool up to its workers
  std::uint64_t queue_limit = unlimited;  ///< most waiters of its own; 1 or more
  bool times_waits = false;               ///< whether stats() has a histogram of its waits, which takes 1.2 KiB
};

/// The statistics of a flow. Consistent: taken in one step.
struct flow_stats {
  std::uint32_t weight = 0;
  std::size_t waiting = 0;
  std::uint64_t granted = 0;                    ///< requests
  std::uint64_t tokens = 0;                     ///< the sum of the tokens of these requests, of the first unit
  std::uint64_t failed = 0;                     ///< requests that were refused, or that waited and were not granted
  std::uint64_t held = 0;                       ///< places that it occupies
  bool is_held_back = false;                    ///< it waits for its own ceiling or pause, not for the limit
  time_point paused_until = time_point::min();  ///< by its own pause; in the past: it is not paused
  std::vector<std::int64_t> available;          ///< tokens of each of its rates; below 0: a debt
  std::optional<wait_histogram> wait;  ///< of the granted requests, from call to grant; with flow_options::times_waits
};

/// A share of a limit: of a tenant, an API key, a client. Requests name it: `acquire({.flow = &tenant})`.
///
/// While several flows wait in the same class, each gets tokens in proportion to its weight, whatever the others send.
/// A flow that asks rarely goes next: it waits for at most one request of each other flow. Shares are not saved up, and
/// a share that is not used goes to the others. A request without a flow belongs to a nameless flow of weight 1.
///
/// Promises:
/// - Between classes priority stays strict. Inside a flow the order is that of the limit: by class, then by arrival.
/// - While two flows compete in one class, over any interval |Wf·wm − Wm·wf| <= lf·wm + lm·wf. W is what each was
///   granted, w its weight, and l its largest request.
/// - Where the limit has several units, a request counts by the unit of which it takes most. Its size in W and l is
///   then the time in which the slowest of its rates makes the tokens that it wants. So a flow of long requests gets no
///   more of the scarce unit than its share, and no flow gains by asking for more of a plentiful one.
/// - Ceilings: the flow's own rates, its cap on places, its queue limit and its pause. They bind only this flow. While
///   its first waiter has to wait for one of them, the flow is held, and others are served as if it were not there.
/// - A token is taken of the limit and of the flow in one step, or of neither.
/// - Only waiters pay: a grant at once, while the limit is free, costs nothing of a share.
/// - At its own queue limit a flow makes room among its own waiters only, by the limit's overflow policy.
/// - In a full queue with overflow::evict_least_important, a newcomer may displace one of its own class, too. The
///   waiter that goes is the youngest of the flow that has most waiters for its weight. So no flow keeps others out.
/// - Shedding judges each flow by its own delays, in each class. A flood loses its own waiters; see shedding_options.
/// - In shadow mode its requests go at once, too. The statistics count the waits and refusals that its ceilings would
///   have caused.
///
/// Keep one flow for each tenant. A flow that is made anew for each request starts without a debt each time.
///
/// With ageing, waiters that have risen compete in the class to which they have risen. So in classes above 0 the old
/// waiters of a flood may go before a calm flow's new one for up to `ageing`. Give floods a queue limit.
///
/// In a pool, the tasks are the requests. `task_options::flow` names the flow, and a task holds a place of it while it
/// runs. For another attempt a task joins its flow again, at the end of its class. Tasks that are delayed are not in
/// the flow yet, but its queue limit counts them. An attempt after the first is never refused, but the queue limit
/// counts it. The queue limit does not count tasks that free workers are about to take. With overflow::wait a flow has
/// no queue limit, and callers that wait for room go in by class and arrival. An operation must not wait for a task of
/// its own flow while the flow is at its cap: that wait would never end.
///
/// Errors: a request that names a flow of another limit ends with errc::invalid_argument, and takes nothing. A request
/// for more than the flow's rates or places can ever give is errc::too_large.
/// Threads: any, all members, at once.
/// Lifetime: destroying it ends its waiters with errc::stopped; its permits stay good. It may outlive its limit. A
/// request that names it must be made while it lives; an acquire() or run() that has not been started yet is not made.
/// Of a pool, tasks that run go on, but have no further attempt, and tasks that are delayed end.
/// Allocates: in the constructor, about 64 bytes for each class and 200 more; never for a request. A permit of a flow
/// has at most 2^42 - 1 places.
///
/// Source: P. Goyal, H. Vin, H. Cheng, "Start-time fair queueing", SIGCOMM 1996. For units: A. Ghodsi, V. Sekar,
/// M. Zaharia, I. Stoica, "Multi-resource fair queueing for packet processing", SIGCOMM 2012.
class flow {
 public:
  /// A share of a scheduler, a semaphore or a limiter.
  ///
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  template <class Waiter>
  explicit flow(limit_handle<Waiter>& limit, const flow_options& o = {}) : flow{limit.flows(), o} {}
  /// A share of a strand_pool or a resource_pool. Its tasks are the requests, of one token each.
  template <class R>
  explicit flow(pool_handle<R>& pool, const flow_options& o = {}) : flow{pool.core().flows(), o} {}
  ~flow() { host_->close_flow(number_); }

  flow(const flow&) = delete;
  flow& operator=(const flow&) = delete;

  /// Changes its weight, from the next grant on.
  ///
  /// Errors of the setters: errc::invalid_argument for a value outside its range, and for an unknown index.
  void set_weight(std::uint32_t weight) { host_->set_flow_weight(number_, weight); }
  /// Changes one of its rates, at once. The tokens that are there stay.
  void set_rate(std::size_t index, const rate& r) { host_->set_flow_rate(number_, index, r); }
  /// Changes its cap on places, at once. It revokes no place.
  void set_concurrency(std::uint64_t concurrency) { host_->set_flow_concurrency(number_, concurrency); }

  /// Grants the flow nothing until `t`, or until resume(); a pool starts none of its tasks. Tokens gather meanwhile. Of
  /// several calls the last one counts. A request whose deadline lies before `t` is refused, as during a pause of the
  /// limit.
  void pause_until(time_point t) noexcept { host_->pause_flow(number_, t, true); }
  /// Like pause_until(), but a pause that ends later stays.
  void extend_pause(time_point t) noexcept { host_->pause_flow(number_, t, false); }
  void pause() noexcept { pause_until(time_point::max()); }
  void resume() noexcept { pause_until(time_point::min()); }

  /// Allocates.
  flow_stats stats() const { return host_->stats_of_flow(number_); }

 private:
  friend class detail::admission;
  friend class detail::pool_flows;
  flow(detail::flow_host& host, const flow_options& o) : host_{&host}, number_{host.open_flow(o)} {}

  detail::flow_host* const host_;
  const std::uint32_t number_;
};

}  // namespace canigo
