#pragma once

#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace canigo {
class flow;
class rate;
struct flow_options;
struct flow_stats;
}  // namespace canigo

namespace canigo::detail {

class fair_queue;
class supplies;
struct flow_terms;

/// Converts the options of a new flow. `of`: the tokens and slots of the limit to which the flow belongs; nullptr for a
/// flow of a pool. Throws for invalid options; the message names the field.
flow_terms to_terms(const flow_options& o, const supplies* of, time_point now);
/// Throws if the weight of a flow is out of range. The error message names the weight `field`.
void check_flow_weight(std::string_view field, std::uint32_t weight);
/// Writes to `s` the statistics of the flow with the number `flow` in the queue `q`. `s.available` must have memory for
/// most_rates_of_flow values.
void read_flow(const fair_queue& q, std::uint32_t flow, time_point now, flow_stats& s);

inline constexpr std::size_t most_rates_of_flow = 16;

/// The interface of an engine with flows, for canigo::flow. Each open flow holds a reference to the engine.
///
/// Threads: any.
class flow_host {
 public:
  /// Returns the number of the new flow. Throws for invalid options; the message names the field.
  virtual std::uint32_t open_flow(const flow_options& o) = 0;
  /// Closes a flow, and ends its waiters with `stopped`.
  virtual void close_flow(std::uint32_t flow) noexcept = 0;

  virtual void set_flow_weight(std::uint32_t flow, std::uint32_t weight) = 0;
  virtual void set_flow_rate(std::uint32_t flow, std::size_t index, const rate& r) = 0;
  virtual void set_flow_concurrency(std::uint32_t flow, std::uint64_t concurrency) = 0;
  /// Pauses a flow until `t`. If the flow is already paused and `may_shorten` is true, the new pause replaces the old
  /// one. If `may_shorten` is false, the pause that ends later stays.
  virtual void pause_flow(std::uint32_t flow, time_point t, bool may_shorten) noexcept = 0;
  virtual flow_stats stats_of_flow(std::uint32_t flow) const = 0;

 protected:
  flow_host() = default;
  ~flow_host() = default;
};

}  // namespace canigo::detail
