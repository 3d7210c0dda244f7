#pragma once

// A model of a service under load, for algorithms that limit its calls. It simulates discrete events in virtual time.

#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/time.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace adaptive {

/// A call that has ended: its number and its result.
struct call_end : canigo::limit_sample {
  std::uint32_t call = 0;
};

/// An algorithm that decides about a limit.
class algorithm {
 public:
  virtual ~algorithm() = default;
  virtual std::uint64_t limit() const = 0;
  /// Called when a call begins. Only algorithms that track single calls need it.
  virtual void begin(std::uint32_t /*call*/, canigo::time_point /*now*/) {}
  /// Called when a call has ended. `in_flight`: the number of running calls, including this one.
  virtual void record(const call_end& e, canigo::time_point now, std::uint64_t in_flight) = 0;
};

struct contender {
  std::string name;
  std::unique_ptr<algorithm> (*make)(std::uint64_t seed);
};

class fixed final : public algorithm {
 public:
  explicit fixed(std::uint64_t limit) : limit_{limit} {}
  std::uint64_t limit() const override { return limit_; }
  void record(const call_end&, canigo::time_point, std::uint64_t) override {}

 private:
  std::uint64_t limit_;
};

/// The properties of the service and its callers during one phase. Times are in seconds.
struct phase {
  double length;
  double rate;      // arrivals of callers per second
  double capacity;  // the number of calls that are served at the same time
  double service;   // the mean service time of a call
  double lost = 0;  // the share of calls that get no answer, independent of the load
};

struct trace {
  std::string name;
  std::vector<phase> phases;
  double rtt = .002;
  double sigma = 0;           // the sigma of lognormal service times; 0: exponential service times
  double refuse = 0;          // calls beyond this multiple of the capacity are refused; 0: no call is refused
  double thrash = 0;          // the relative slowdown of each call per `capacity` waiting calls
  double timeout = 0;         // callers give up after this time, but the service continues the call; 0: never
  bool is_cancelled = false;  // whether callers report a timeout as a cancellation
  double outer = 0;           // callers give up this long after their arrival, even while they wait; 0: see run()
};

/// The results of one phase.
struct tally {
  double good = 0;             // successful calls per second
  double p99 = 0;              // the 99th percentile of the latency of these calls, in seconds
  std::vector<double> limits;  // the limit every 100 ms
};

/// Runs the trace. Callers wait for a slot for at most 250 ms, or for `outer` if it is set, in the order of arrival.
std::vector<tally> run(const trace& t, algorithm& a, std::uint64_t seed);

/// Returns the 99th percentile of the latency of a service without other callers.
double unloaded_p99(const trace& t, const phase& p);

}  // namespace adaptive
