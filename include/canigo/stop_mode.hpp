#pragma once

#include <cstdint>
#include <exception>

namespace canigo {

/// How a pool stops, from soft to hard. A harder mode may follow a softer one. A softer one after that does not soften
/// the stop.
///
/// | mode | running operations | queued and delayed tasks | new tasks |
/// |---|---|---|---|
/// | drain | finish | run | end with errc::stopped |
/// | finish_running | finish, with no further attempts | end with errc::stopped | end with errc::stopped |
/// | cancel_all | are cancelled | end with errc::stopped | end with errc::stopped |
///
/// When a grace is over, drain and finish_running turn into cancel_all.
enum class stop_mode : std::uint8_t { drain = 1, finish_running, cancel_all };

/// How all tasks of a pool ended: submitted = succeeded + failed + cancelled + timed_out + stopped.
struct stop_report {
  std::uint64_t submitted = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;     ///< including the evicted ones
  std::uint64_t cancelled = 0;  ///< by their owner or by the stop
  std::uint64_t timed_out = 0;
  std::uint64_t stopped = 0;    ///< never ran to an end, because the pool stopped
  std::uint64_t escalated = 0;  ///< were still running when the grace was over, and were cancelled then
  std::exception_ptr cause;     ///< why the pool stopped by itself; null if it was told to stop
};

}  // namespace canigo
