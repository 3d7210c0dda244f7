#include "peers.hpp"

#include "canigo/detail/base/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

namespace adaptive {

using namespace canigo;

namespace {

constexpr double first = 20, least = 1, most = 1000;

double seconds(duration d) { return std::chrono::duration<double>(d).count(); }
double seconds(time_point t) { return seconds(t.time_since_epoch()); }
double log10_of(double limit) { return std::max(1., std::floor(std::log10(std::max(1., limit)))); }

/// An average that forgets exponentially, after a plain one of the first samples.
class ewma {
 public:
  ewma(double window, int warm_up) : factor_{2 / (window + 1)}, warm_up_{warm_up} {}
  double add(double x) {
    if (count_ < warm_up_) {
      ++count_;
      sum_ += x;
      value = sum_ / count_;
    } else {
      value = value * (1 - factor_) + x * factor_;
    }
    return value;
  }
  double value = 0;

 private:
  double factor_, sum_ = 0;
  int warm_up_, count_ = 0;
};

/// WindowedLimit of Netflix' concurrency-limits with its defaults: averages of a second.
class netflix : public algorithm {
 public:
  std::uint64_t limit() const override { return static_cast<std::uint64_t>(limit_); }
  void record(const call_end& s, time_point now, std::uint64_t) override {
    const double rtt = seconds(s.latency);
    if (s.outcome == sample_outcome::cancelled || rtt < 1e-4) return;  // onIgnore
    shortest_ = std::min(shortest_, rtt);
    sum_ += rtt;
    ++count_;
    peak_ = std::max(peak_, static_cast<double>(s.in_flight));
    dropped_ = dropped_ || s.outcome == sample_outcome::dropped;
    if (seconds(now) <= next_) return;
    next_ = seconds(now) + 1;
    if (count_ >= 10) update(sum_ / count_, peak_, dropped_);
    shortest_ = std::numeric_limits<double>::infinity();
    sum_ = count_ = peak_ = 0;
    dropped_ = false;
  }

 protected:
  virtual void update(double rtt, double in_flight, bool dropped) = 0;
  double limit_ = first;

 private:
  double next_ = 0, shortest_ = std::numeric_limits<double>::infinity(), sum_ = 0, count_ = 0, peak_ = 0;
  bool dropped_ = false;
};

class gradient2 final : public netflix {
  void update(double rtt, double in_flight, bool) override {
    constexpr double tolerance = 1.5, smoothing = .2, queue = 4;
    const double average = long_.add(rtt);
    if (average / rtt > 2) long_.value *= .95;
    if (in_flight < limit_ / 2) return;
    const double gradient = std::clamp(tolerance * average / rtt, .5, 1.);
    limit_ = std::clamp(limit_ * (1 - smoothing) + (limit_ * gradient + queue) * smoothing, least, most);
  }
  ewma long_{600, 10};
};

class vegas final : public netflix {
 public:
  explicit vegas(std::uint64_t seed) : random_{seed} { draw(); }

 private:
  void update(double rtt, double in_flight, bool dropped) override {
    if (jitter_ * 30 * limit_ <= ++probes_) {
      draw();
      probes_ = 0;
      unloaded_ = rtt;
      return;
    }
    if (unloaded_ == 0 || rtt < unloaded_) {
      unloaded_ = rtt;
      return;
    }
    const double queue = std::ceil(limit_ * (1 - unloaded_ / rtt));
    const double step = log10_of(limit_);
    double next = limit_;
    if (dropped) {
      next -= step;
    } else if (in_flight * 2 < limit_) {
      return;
    } else if (queue <= step) {
      next += 6 * step;
    } else if (queue < 3 * step) {
      next += step;
    } else if (queue > 6 * step) {
      next -= step;
    }
    limit_ = std::clamp(next, least, most);
  }
  void draw() { jitter_ = .5 + .5 * static_cast<double>(detail::next_random(random_) >> 11) * 0x1p-53; }

  std::uint64_t random_;
  double jitter_ = 1, probes_ = 0, unloaded_ = 0;
};

/// The adaptive limiter of failsafe-go with its defaults, but for the bounds.
class failsafe final : public algorithm {
 public:
  std::uint64_t limit() const override { return static_cast<std::uint64_t>(limit_); }
  void record(const call_end& s, time_point now, std::uint64_t in_flight) override {
    if (s.outcome == sample_outcome::ok) {
      recent_.push_back(seconds(s.latency));
      peak_ = std::max(peak_, static_cast<double>(s.in_flight));
    }
    if (seconds(now) <= next_ || recent_.size() < 50) return;
    const auto p90 = recent_.begin() + static_cast<std::ptrdiff_t>(.9 * static_cast<double>(recent_.size()));
    std::nth_element(recent_.begin(), p90, recent_.end());
    last_five_.push_back(*p90);
    if (last_five_.size() > 5) last_five_.pop_front();
    std::vector<double> sorted{last_five_.begin(), last_five_.end()};
    std::ranges::sort(sorted);
    const double filtered = last_five_.size() < 5 ? *p90 : sorted[2];
    update(smoothed_.add(filtered), peak_, in_flight >= limit());
    const double shortest = *std::ranges::min_element(recent_);
    recent_.clear();
    peak_ = 0;
    next_ = seconds(now) + std::min(std::max(2 * shortest, 1.), 30.);
  }

 private:
  /// The correlation of two values over the last 50 windows.
  class correlation {
   public:
    struct result {
      double of_both = 0, variation = 0;
    };
    result add(double x, double y) {
      pairs_.emplace_back(x, y);
      if (pairs_.size() > 50) pairs_.pop_front();
      const auto n = static_cast<double>(pairs_.size());
      double sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
      for (const auto& [a, b] : pairs_) {
        sx += a;
        sy += b;
        sxx += a * a;
        syy += b * b;
        sxy += a * b;
      }
      const double mx = sx / n, my = sy / n, vx = sxx / n - mx * mx, vy = syy / n - my * my;
      if (pairs_.size() < 10 || vx < 0 || vy < 0 || mx == 0 || my == 0) return {};
      const double cx = std::sqrt(vx) / mx, cy = std::sqrt(vy) / my;
      if (cx < .01 || cy < .01) return {0, cy};
      return {(sxy / n - mx * my) / std::sqrt(vx * vy), cy};
    }

   private:
    std::deque<std::pair<double, double>> pairs_;
  };

  void update(double rtt, double in_flight, bool is_full) {
    const double queue = std::ceil(limit_ * (1 - baseline_.add(rtt) / rtt));
    const auto [throughput, variation] = throughput_.add(in_flight, in_flight / rtt);
    const double latency = latency_.add(in_flight, rtt).of_both;
    const double step = log10_of(limit_);
    double next = limit_;
    if (queue > 6 * step ||
        (is_full && (throughput < 0 || (throughput < .3 && latency > .5) || (variation < .2 && latency > .5)))) {
      next -= step;
    } else if (queue < 3 * step) {
      next += step;
    }
    if (next > in_flight * 5) next = limit_ - step;
    limit_ = std::clamp(next, least, most);
  }

  double limit_ = first, next_ = 0, peak_ = 0;
  std::vector<double> recent_;
  std::deque<double> last_five_;
  ewma smoothed_{5, 10}, baseline_{10, 10};
  correlation throughput_, latency_;
};

/// The gradient controller of Envoy's adaptive concurrency filter, with the intervals of its documentation.
class envoy final : public algorithm {
 public:
  explicit envoy(std::uint64_t seed) : random_{seed} {}
  std::uint64_t limit() const override { return static_cast<std::uint64_t>(limit_); }
  void record(const call_end& s, time_point at, std::uint64_t) override {
    const double now = seconds(at);
    tick(now);
    if (s.outcome == sample_outcome::cancelled || now - seconds(s.latency) < epoch_) return;
    samples_.push_back(seconds(s.latency));
    if (!is_measuring_ || samples_.size() < 50) return;
    shortest_ = median();
    set(deferred_);
    is_measuring_ = false;
    const double jitter = static_cast<double>(detail::next_random(random_) >> 11) * 0x1p-53;
    measure_at_ = now + 60 * (1 + .15 * jitter);
    reset_at_ = now + .1;
  }

 private:
  void tick(double now) {
    if (is_measuring_) return;
    while (reset_at_ <= now) {
      reset_at_ += .1;
      if (samples_.empty()) continue;
      const double gradient = std::clamp(1.25 * shortest_ / median(), .5, 2.);
      const double raised = limit_ * gradient;
      set(std::clamp(std::floor(raised + std::sqrt(raised)), fewest, most));
      if (at_least_ >= 5) measure_at_ = now;
    }
    if (measure_at_ > now) return;
    is_measuring_ = true;
    deferred_ = limit_;
    set(fewest);
    samples_.clear();
    epoch_ = now;
  }
  void set(double next) {
    at_least_ = !is_measuring_ && limit_ == fewest && next == fewest ? at_least_ + 1 : 0;
    limit_ = next;
  }
  double median() {
    const auto middle = samples_.begin() + static_cast<std::ptrdiff_t>(samples_.size() / 2);
    std::nth_element(samples_.begin(), middle, samples_.end());
    const double m = *middle;
    samples_.clear();
    return m;
  }

  static constexpr double fewest = 3;
  std::uint64_t random_;
  double limit_ = fewest, deferred_ = fewest, shortest_ = 0, epoch_ = 0, measure_at_ = 0, reset_at_ = .1;
  int at_least_ = 0;
  bool is_measuring_ = true;
  std::vector<double> samples_;
};

}  // namespace

const std::vector<contender>& peers() {
  static const std::vector<contender> all{
      {"Netflix gradient2", [](std::uint64_t) -> std::unique_ptr<algorithm> { return std::make_unique<gradient2>(); }},
      {"Netflix vegas", [](std::uint64_t seed) -> std::unique_ptr<algorithm> { return std::make_unique<vegas>(seed); }},
      {"failsafe-go", [](std::uint64_t) -> std::unique_ptr<algorithm> { return std::make_unique<failsafe>(); }},
      {"Envoy", [](std::uint64_t seed) -> std::unique_ptr<algorithm> { return std::make_unique<envoy>(seed); }},
  };
  return all;
}

}  // namespace adaptive
