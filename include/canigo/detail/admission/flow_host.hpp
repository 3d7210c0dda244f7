#pragma once

#include <cstddef>
#include <cstdint>

namespace canigo {
class rate;
struct flow_options;
struct flow_stats;
}  // namespace canigo

namespace canigo::detail {

/// An engine that has flows, as canigo::flow sees it. Each open flow holds a reference to the engine.
///
/// Threads: any.
class flow_host {
 public:
  /// Returns the number of the new flow. Throws what is wrong with the options, naming it.
  virtual std::uint32_t open_flow(const flow_options& o) = 0;
  /// Ends its waiters with `stopped`.
  virtual void close_flow(std::uint32_t flow) noexcept = 0;

  virtual void set_flow_weight(std::uint32_t flow, std::uint32_t weight) = 0;
  virtual void set_flow_rate(std::uint32_t flow, std::size_t index, const rate& r) = 0;
  virtual void set_flow_concurrency(std::uint32_t flow, std::uint64_t concurrency) = 0;
  virtual flow_stats stats_of_flow(std::uint32_t flow) const = 0;

 protected:
  flow_host() = default;
  ~flow_host() = default;
};

}  // namespace canigo::detail
