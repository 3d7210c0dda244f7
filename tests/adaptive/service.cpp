#include "service.hpp"

#include "canigo/detail/base/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <deque>
#include <queue>

namespace adaptive {

using namespace canigo;

namespace {

constexpr double patience = .25;

enum class event_kind : std::uint8_t { arrival, served, answered, given_up, cut, next_phase, look };

struct event {
  double at;
  std::uint64_t number;  // in the order in which they were made
  event_kind kind;
  std::uint32_t call;

  bool operator>(const event& other) const { return at != other.at ? at > other.at : number > other.number; }
};

struct call {
  double start = 0, waited = 0;
  std::uint64_t in_flight = 0;
  std::uint32_t generation = 0;
  sample_outcome outcome = sample_outcome::ok;
  bool is_over = false;  // for its caller
  bool is_lost = false;  // there will be no answer
};

/// Latencies in buckets of 1 %.
class percentiles {
 public:
  void add(double x) {
    const double at = std::clamp(std::log(x / smallest) / std::log(1.01), 0., static_cast<double>(counts_.size() - 1));
    ++counts_[static_cast<std::size_t>(at)];
    ++all_;
  }
  double at(double share) const {
    double left = share * static_cast<double>(all_);
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      left -= static_cast<double>(counts_[i]);
      if (left <= 0) return smallest * std::pow(1.01, static_cast<double>(i) + .5);
    }
    return 0;
  }

 private:
  static constexpr double smallest = 1e-5;
  std::array<std::uint32_t, 1800> counts_{};
  std::uint64_t all_ = 0;
};

class world {
 public:
  world(const trace& t, algorithm& a, std::uint64_t seed) : trace_{t}, algorithm_{a}, random_{seed} {}

  std::vector<tally> run() {
    begin_phase();
    after(gap(), event_kind::arrival);
    after(.1, event_kind::look);
    while (phase_ < trace_.phases.size()) {
      const event e = events_.top();
      events_.pop();
      now_ = e.at;
      handle(e);
    }
    return std::move(results_);
  }

 private:
  const phase& now_in() const { return trace_.phases[phase_]; }
  time_point clock() const { return time_point{duration{static_cast<duration::rep>(now_ * 1e9)}}; }

  double unit() { return static_cast<double>((detail::next_random(random_) >> 11) + 1) * 0x1p-53; }
  double gap() { return -std::log(unit()) / now_in().rate; }
  double time_of_service() {
    double x = -std::log(unit());
    if (trace_.sigma > 0) {
      const double normal = std::sqrt(-2 * std::log(unit())) * std::cos(2 * 3.14159265358979323846 * unit());
      x = std::exp(trace_.sigma * normal - trace_.sigma * trace_.sigma / 2);
    }
    const double more = std::max(0., static_cast<double>(inside_) / now_in().capacity - 1);
    return x * now_in().service * (1 + trace_.thrash * more);
  }

  void after(double d, event_kind kind, std::uint32_t c = 0) { events_.push({now_ + d, ++number_, kind, c}); }

  void handle(const event& e) {
    switch (e.kind) {
      case event_kind::arrival:
        waiting_.push_back(now_);
        after(gap(), event_kind::arrival);
        break;
      case event_kind::served:
        --busy_;
        --inside_;
        serve();
        after(trace_.rtt, event_kind::answered, e.call);
        break;
      case event_kind::answered:
        end(e.call, calls_[e.call].outcome);
        free_.push_back(e.call);
        break;
      case event_kind::given_up:
        // The call may be over, and its place taken by another one.
        give_up(give_ups_, trace_.is_cancelled ? sample_outcome::cancelled : sample_outcome::dropped);
        break;
      case event_kind::cut:
        give_up(cuts_, sample_outcome::cancelled);
        break;
      case event_kind::next_phase:
        end_phase();
        break;
      case event_kind::look:
        results_.back().limits.push_back(static_cast<double>(algorithm_.limit()));
        after(.1, event_kind::look);
        break;
    }
    if (phase_ < trace_.phases.size()) let_go();
  }

  void let_go() {
    const double most = trace_.outer > 0 ? trace_.outer : patience;
    while (!waiting_.empty() && now_ - waiting_.front() > most) waiting_.pop_front();
    while (!waiting_.empty() && in_flight_ < algorithm_.limit()) {
      const double since = waiting_.front();
      waiting_.pop_front();
      begin(since);
    }
  }

  void begin(double since) {
    std::uint32_t c = static_cast<std::uint32_t>(calls_.size());
    if (free_.empty()) {
      calls_.emplace_back();
    } else {
      c = free_.back();
      free_.pop_back();
    }
    calls_[c] = {now_, now_ - since, ++in_flight_, calls_[c].generation + 1, sample_outcome::ok, false, false};
    algorithm_.begin(c, clock());
    if (trace_.timeout > 0) give_ups_.push_back({c, calls_[c].generation});
    if (trace_.timeout > 0) after(trace_.timeout, event_kind::given_up);
    if (trace_.outer > 0) cuts_.push_back({c, calls_[c].generation});
    if (trace_.outer > 0) after(std::max(0., since + trace_.outer - now_), event_kind::cut);
    if (now_in().lost > 0 && unit() < now_in().lost) {
      calls_[c].is_lost = true;
      return;
    }
    if (trace_.refuse > 0 && static_cast<double>(inside_) >= trace_.refuse * now_in().capacity) {
      calls_[c].outcome = sample_outcome::dropped;
      after(trace_.rtt, event_kind::answered, c);
      return;
    }
    ++inside_;
    at_the_service_.push_back(c);
    serve();
  }

  void serve() {
    while (!at_the_service_.empty() && static_cast<double>(busy_) < now_in().capacity) {
      const std::uint32_t c = at_the_service_.front();
      at_the_service_.pop_front();
      ++busy_;
      after(time_of_service(), event_kind::served, c);
    }
  }

  /// They give up in the order in which they began.
  void give_up(std::deque<std::pair<std::uint32_t, std::uint32_t>>& all, sample_outcome how) {
    const auto [c, generation] = all.front();
    all.pop_front();
    if (calls_[c].generation != generation || calls_[c].is_over) return;
    end(c, how);
    if (calls_[c].is_lost) free_.push_back(c);
  }

  void end(std::uint32_t number, sample_outcome how) {
    call& c = calls_[number];
    if (c.is_over) return;
    c.is_over = true;
    const double latency = now_ - c.start;
    if (how == sample_outcome::ok) {
      results_.back().good += 1;
      latencies_.add(latency);
    }
    const auto as_duration = [](double s) { return duration{static_cast<duration::rep>(s * 1e9)}; };
    algorithm_.record({{as_duration(latency), c.in_flight, how, as_duration(c.waited)}, number}, clock(), in_flight_);
    --in_flight_;
  }

  void begin_phase() {
    results_.emplace_back();
    latencies_ = {};
    after(now_in().length, event_kind::next_phase);
    serve();
  }

  void end_phase() {
    results_.back().good /= now_in().length;
    results_.back().p99 = latencies_.at(.99);
    if (++phase_ < trace_.phases.size()) begin_phase();
  }

  const trace& trace_;
  algorithm& algorithm_;
  std::uint64_t random_;
  double now_ = 0;
  std::uint64_t number_ = 0;
  std::size_t phase_ = 0;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::vector<call> calls_;
  std::vector<std::uint32_t> free_;
  std::deque<double> waiting_;
  std::deque<std::uint32_t> at_the_service_;
  std::deque<std::pair<std::uint32_t, std::uint32_t>> give_ups_, cuts_;
  std::uint64_t in_flight_ = 0, inside_ = 0, busy_ = 0;
  percentiles latencies_;
  std::vector<tally> results_;
};

}  // namespace

std::vector<tally> run(const trace& t, algorithm& a, std::uint64_t seed) { return world{t, a, seed}.run(); }

double unloaded_p99(const trace& t, const phase& p) {
  constexpr double normal_p99 = 2.3263;
  const double x = t.sigma > 0 ? std::exp(t.sigma * normal_p99 - t.sigma * t.sigma / 2) : std::log(100.);
  return x * p.service + t.rtt;
}

}  // namespace adaptive
