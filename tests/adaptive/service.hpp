#pragma once

// A model of a service under load, for algorithms that limit the calls to it: discrete events in virtual time.

#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/time.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace adaptive {

/// A call that has ended: which of those that are under way, and how.
struct call_end : canigo::limit_sample {
  std::uint32_t call = 0;
};

/// What decides on a limit.
class algorithm {
 public:
  virtual ~algorithm() = default;
  virtual std::uint64_t limit() const = 0;
  /// A call begins: for what has to know them one by one.
  virtual void begin(std::uint32_t /*call*/, canigo::time_point /*now*/) {}
  /// A call has ended. `in_flight` is what is under way now, with it.
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

/// What the service and its callers are like for a while. Times are in seconds.
struct phase {
  double length;
  double rate;      // of callers
  double capacity;  // calls that are served at a time
  double service;   // mean time of one
  double lost = 0;  // the share of the calls that get no answer, whatever the load is
};

struct trace {
  std::string name;
  std::vector<phase> phases;
  double rtt = .002;
  double sigma = 0;           // of a lognormal time of service; 0: exponential
  double refuse = 0;          // calls beyond that many times the capacity are refused; 0: none
  double thrash = 0;          // how much slower each call is, for each capacity's worth of calls that wait there
  double timeout = 0;         // callers give up after so long, and the service goes on; 0: never
  bool is_cancelled = false;  // what they call that
  double outer = 0;           // callers give up so long after they came, wherever they are; 0: see run()
};

/// What came of a phase.
struct tally {
  double good = 0;             // calls a second that ended well
  double p99 = 0;              // of their latency, in seconds
  std::vector<double> limits;  // every 100 ms
};

/// Runs the trace. Callers wait for 250 ms at most to be let go, the first ones first; with `outer` as long as that.
std::vector<tally> run(const trace& t, algorithm& a, std::uint64_t seed);

/// The 99th percentile of the latency of a service that nobody else calls.
double unloaded_p99(const trace& t, const phase& p);

}  // namespace adaptive
