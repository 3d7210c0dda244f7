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
  std::uint32_t weight = 1;  ///< the share of this flow relative to other flows; 1 to 10,000
  /// up to 16 rates of the flow itself, in units of the limit; each burst is at most the limit's burst
  std::vector<rate_limit> rates = {};
  /// max number of slots for this flow; 1 or more; in a pool, at most the number of workers
  std::uint64_t concurrency = unlimited;
  std::uint64_t queue_limit = unlimited;  ///< max number of waiters of this flow; 1 or more
  bool times_waits = false;  ///< whether stats() has a histogram of the waits of this flow, which takes 1.2 KiB
};

/// The statistics of a flow, all read at one instant.
struct flow_stats {
  std::uint32_t weight = 0;
  std::size_t waiting = 0;
  std::uint64_t granted = 0;  ///< number of granted requests
  std::uint64_t tokens = 0;   ///< the sum of the tokens of the granted requests, in the first unit
  std::uint64_t failed = 0;   ///< requests of this flow that were refused, or that waited and were not granted
  std::uint64_t held = 0;     ///< number of slots that the flow occupies
  /// whether the first waiter of the flow is held back by the flow's own rate, cap or pause, and not by the limit
  bool is_held_back = false;
  /// the end of the flow's own pause; an instant in the past means: not paused
  time_point paused_until = time_point::min();
  std::vector<std::int64_t> available;  ///< available tokens of each rate of the flow; below 0: a debt
  /// The waits of granted requests, from call to grant; only with flow_options::times_waits.
  std::optional<wait_histogram> wait;
};

/// A share of a limit, for example of a tenant, an API key or a client. Requests name their flow: `acquire({.flow =
/// &tenant})`.
///
/// While several flows wait in the same priority class, each gets tokens in proportion to its weight, however many
/// requests the other flows send. A request of a flow that sends rarely waits for at most one request of each other
/// flow. A flow can't save up its share: if the flow does not use its share, other flows use it. Requests without a
/// flow belong to a nameless flow of weight 1.
///
/// Promises:
/// - Between classes priority stays strict. Inside a flow the order is that of the limit: by class, then by arrival.
/// - While two flows f and m compete in one class, over any interval |Wf·wm − Wm·wf| <= lf·wm + lm·wf. W is the sum of
///   granted requests of a flow, w its weight, and l its largest request.
/// - If the limit has several units, a request counts by the unit that is scarcest for it. Its size in W and l is then
///   the longest time that one of the limit's rates takes to make the requested tokens. So a flow of long requests gets
///   only its share of the scarce unit. No flow gains by requesting more of a plentiful unit.
/// - A flow has ceilings: its own rates, its cap on slots, its queue limit and its pause. The ceilings bind only this
///   flow. While a ceiling holds back the first waiter of the flow, other flows are served as if this flow had no
///   waiters.
/// - A request takes its tokens from the limit and from the flow in one step, or from neither.
/// - Only requests that wait use up a flow's share; requests that the limit grants immediately don't.
/// - If a flow reaches its own queue limit, only its own waiters can be evicted, by the limit's overflow policy.
/// - In a full queue with overflow::evict_least_important, a new request may also evict a waiter of its own class. The
///   evicted waiter is the youngest one of the flow that has the most waiters relative to its weight. So no flow
///   can keep other flows out of the queue.
/// - Shedding judges each flow by its own delays, in each class. A flow that floods the limit loses its own waiters;
///   see shedding_options.
/// - In shadow mode the requests of a flow are granted immediately. The statistics count the waits and refusals that
///   its ceilings would have caused.
///
/// Keep one flow object for each tenant. A flow object that is made anew for each request starts without a debt each
/// time, so its share has no effect.
///
/// With ageing, a waiter that has risen competes in its new class. So a new request of a calm flow, in any
/// class but 0, may wait for up to `ageing` behind old waiters of a flooding flow. Give flooding flows a queue limit.
///
/// In a pool, the tasks are the requests. `task_options::flow` names the flow, and a running task occupies a slot of
/// that flow. Before another attempt, a task joins the queue of its flow again, at the end of its class.
/// - The queue limit of the flow counts delayed tasks and tasks that wait for another attempt. The queue limit never
///   refuses another attempt of a task. It does not count tasks that free workers are about to take.
/// - With overflow::wait a flow has no queue limit, and callers that wait for room enter by class and arrival.
/// - An operation must not wait for a task of its own flow while all slots of the flow are taken: that wait would never
///   end.
///
/// Errors: a request that names a flow of another limit ends with errc::invalid_argument, and takes nothing. A request
/// that exceeds a burst or the cap of its flow ends with errc::too_large.
/// Threads: any thread may call any member at any time.
/// Lifetime: destroying the flow ends its waiters with errc::stopped; its permits stay valid. It may outlive its limit.
/// A request must start while its flow lives; an acquire() or run() that is not awaited yet has not started. In a pool,
/// running tasks of a destroyed flow continue without further attempts, and delayed tasks end.
/// Allocates: in the constructor, about 64 bytes for each class and 200 more; never for a request. A permit of a flow
/// stands for at most 2^42 - 1 slots.
///
/// Source: P. Goyal, H. Vin, H. Cheng, "Start-time fair queueing", SIGCOMM 1996. For units: A. Ghodsi, V. Sekar, M.
/// Zaharia, I. Stoica, "Multi-resource fair queueing for packet processing", SIGCOMM 2012.
class flow {
 public:
  /// Makes a flow of a scheduler, a semaphore or a limiter.
  ///
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  template <class Waiter>
  explicit flow(limit_handle<Waiter>& limit, const flow_options& o = {}) : flow{limit.flows(), o} {}
  /// Makes a flow of a strand_pool or a resource_pool. The requests of the flow are tasks of the pool, and each task
  /// counts as one token.
  template <class R>
  explicit flow(pool_handle<R>& pool, const flow_options& o = {}) : flow{pool.core().flows(), o} {}
  ~flow() { host_->close_flow(number_); }

  flow(const flow&) = delete;
  flow& operator=(const flow&) = delete;

  /// Changes the weight of the flow; later grants use it.
  ///
  /// Errors of all setters of flow: errc::invalid_argument for a value out of range, and for an unknown index.
  void set_weight(std::uint32_t weight) { host_->set_flow_weight(number_, weight); }
  /// Changes one of the flow's rates immediately. Available tokens are kept.
  void set_rate(std::size_t index, const rate& r) { host_->set_flow_rate(number_, index, r); }
  /// Changes the flow's cap on slots immediately. Permits that exceed a smaller cap stay valid.
  void set_concurrency(std::uint64_t concurrency) { host_->set_flow_concurrency(number_, concurrency); }

  /// Grants the flow nothing until `t`, or until resume(); a pool starts none of the flow's tasks. Tokens accumulate
  /// meanwhile. A later call replaces an earlier one. A request whose deadline is before `t` is refused, as during a
  /// pause of the limit.
  void pause_until(time_point t) noexcept { host_->pause_flow(number_, t, true); }
  /// Like pause_until(), but never shortens a pause.
  void extend_pause(time_point t) noexcept { host_->pause_flow(number_, t, false); }
  void pause() noexcept { pause_until(time_point::max()); }
  void resume() noexcept { pause_until(time_point::min()); }

  /// Allocates memory for the returned statistics.
  flow_stats stats() const { return host_->stats_of_flow(number_); }

 private:
  friend class detail::admission;
  friend class detail::pool_flows;
  flow(detail::flow_host& host, const flow_options& o) : host_{&host}, number_{host.open_flow(o)} {}

  detail::flow_host* const host_;
  const std::uint32_t number_;
};

}  // namespace canigo
