#pragma once

#include "canigo/detail/admission/flow_host.hpp"
#include "canigo/detail/context/engine_alarm.hpp"

#include <cstddef>
#include <cstdint>

namespace canigo::detail {

class pool_core;
class pool_task;

/// The flows of a pool. canigo::flow uses them through flow_host, and the workers use them to choose tasks. The tasks
/// themselves are in the fair_queue of the backlog.
///
/// A running task counts against the concurrency of its flow. If a task is retried, it joins the queue of its flow
/// again.
///
/// Threads: any thread may call the functions of flow_host; call all other functions under the pool's lock.
class pool_flows final : public flow_host {
 public:
  explicit pool_flows(pool_core& core) noexcept;

  /// Throws if the flow is not a flow of this pool.
  void check(const canigo::flow& f) const;

  std::uint32_t open_flow(const flow_options& o) override;
  void close_flow(std::uint32_t flow) noexcept override;
  void set_flow_weight(std::uint32_t flow, std::uint32_t weight) override;
  void set_flow_rate(std::uint32_t flow, std::size_t index, const rate& r) override;
  void set_flow_concurrency(std::uint32_t flow, std::uint64_t concurrency) override;
  void pause_flow(std::uint32_t flow, time_point t, bool may_shorten) noexcept override;
  flow_stats stats_of_flow(std::uint32_t flow) const override;

  /// Assigns a new task to the flow.
  static void choose(pool_task& t, const canigo::flow& f) noexcept;
  /// Counts a refused task in the statistics of its flow.
  void count_refusal(const pool_task& t) noexcept;
  /// Call it when an operation has ended. The task no longer counts against the concurrency of its flow.
  void release(const pool_task& t) noexcept;
  /// Call it when a worker has taken a task, or a flow may run another task. If a task can run, wakes a worker;
  /// otherwise calls watch().
  void look_again() noexcept;
  /// Sets the alarm to the earliest time at which the rates or the pause of a flow let its next task start. The alarm
  /// then wakes a worker.
  void watch() noexcept;
  /// The current time; time_point::min() once the context is destroyed.
  time_point now() const noexcept;

 private:
  pool_core* core_;
  engine_alarm return_;  // the alarm for the time when rates or a pause no longer hold back a flow
};

}  // namespace canigo::detail
