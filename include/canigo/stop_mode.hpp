#pragma once

#include <cstdint>
#include <exception>

namespace canigo {

/// How a pool stops. In the order in which one may follow another.
///
/// | mode | what runs | what is queued or delayed | new work |
/// |---|---|---|---|
/// | drain | finishes | is run | stopped |
/// | finish_running | finishes; no further attempts | stopped | stopped |
/// | cancel_all | is cancelled | stopped | stopped |
///
/// With a grace, drain and finish_running turn into cancel_all when that is over.
enum class stop_mode : std::uint8_t { drain = 1, finish_running, cancel_all };

/// What became of everything that a pool was given: submitted = succeeded + failed + cancelled + timed_out + stopped.
struct stop_report {
  std::uint64_t submitted = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;     ///< the evicted ones too
  std::uint64_t cancelled = 0;  ///< by their owner or by the stop
  std::uint64_t timed_out = 0;
  std::uint64_t stopped = 0;    ///< never run to an end, because the pool stopped
  std::uint64_t escalated = 0;  ///< were still running when the grace was over, and were cancelled then
  std::exception_ptr cause;     ///< why the pool gave up by itself; null if it was told to stop
};

}  // namespace canigo
