#pragma once

#include "canigo/detail/admission/flow_host.hpp"
#include "canigo/detail/context/engine_alarm.hpp"

#include <cstddef>
#include <cstdint>

namespace canigo::detail {

class pool_core;
class pool_task;

/// The flows of a pool, for canigo::flow and for the workers. The tasks are in the backlog's fair_queue.
///
/// A task occupies a place of its flow while it runs. It goes back to its flow for another attempt.
///
/// Threads: any for what flow_host has; all else is under the lock of the pool.
class pool_flows final : public flow_host {
 public:
  explicit pool_flows(pool_core& core) noexcept;

  /// Throws for a flow that is not of this pool.
  void check(const canigo::flow& f) const;

  std::uint32_t open_flow(const flow_options& o) override;
  void close_flow(std::uint32_t flow) noexcept override;
  void set_flow_weight(std::uint32_t flow, std::uint32_t weight) override;
  void set_flow_rate(std::uint32_t flow, std::size_t index, const rate& r) override;
  void set_flow_concurrency(std::uint32_t flow, std::uint64_t concurrency) override;
  void pause_flow(std::uint32_t flow, time_point t, bool may_shorten) noexcept override;
  flow_stats stats_of_flow(std::uint32_t flow) const override;

  /// Makes a new task one of this flow.
  static void choose(pool_task& t, const canigo::flow& f) noexcept;
  /// Counts a task that was refused.
  void count_refusal(const pool_task& t) noexcept;
  /// Call it when an operation has ended for good: frees its place.
  void release(const pool_task& t) noexcept;
  /// Call it when a task was taken, or a place is free: wakes a worker if another task may go, and watches if not.
  void look_again() noexcept;
  /// Sets the alarm for the flow that its ceiling lets return first. Then a worker is woken.
  void watch() noexcept;
  /// The time; time_point::min() once the context has gone.
  time_point now() const noexcept;

 private:
  pool_core* core_;
  engine_alarm return_;  // the return of a flow that its rates or a pause hold
};

}  // namespace canigo::detail
