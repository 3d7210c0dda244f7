// The adaptive limits in a model of a service: what they make of it that a fixed limit, the best for each phase, would
// have made of it, and how they compare with the algorithms of other libraries.
//
// adaptive_simulation [--seeds N] [--only TEXT] [--table]
//
// It ends with 1 if a bound does not hold. --table prints goodput in percent of the best fixed limits', as in
// docs/policies.md.

#include "canigo/aimd.hpp"
#include "canigo/knee.hpp"

#include "peers.hpp"
#include "service.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace adaptive;

template <class Control>
class ours final : public algorithm {
 public:
  explicit ours(Control c) : control_{std::move(c)} {}
  std::uint64_t limit() const override { return control_.limit(); }
  void record(const canigo::limit_sample& s, canigo::time_point now, std::uint64_t) override {
    control_.record(s, now);
  }

 private:
  Control control_;
};

std::unique_ptr<algorithm> make_knee(std::uint64_t seed) {
  // The wall clock is at another moment of its minute with each seed.
  const canigo::duration wall = std::chrono::milliseconds{7919} * static_cast<int>(seed);
  return std::make_unique<ours<canigo::knee_control>>(canigo::knee_control{{}, wall, seed});
}

std::unique_ptr<algorithm> make_aimd(std::uint64_t) {
  return std::make_unique<ours<canigo::aimd_control>>(
      canigo::aimd_control{{.target = std::chrono::milliseconds{100}}, {}});
}

// ---- the traces -----------------------------------------------------------------------------------------------------

constexpr double overload = 1.3;  // times the capacity at first

struct row {
  trace t;
  double goodput = 90;  // bounds of the knee, in percent of the best fixed limits'
  double single = 80;   // the same for one seed
  double p99 = 3.5;     // times the unloaded
  bool settles = true;  // whether the time until the limit is right counts
};

std::vector<phase> steps(std::vector<double> capacities, double service = .05, double length = 60) {
  std::vector<phase> all;
  const double rate = overload * capacities[0] / service;
  for (const double c : capacities) all.push_back({length, rate, c, service});
  return all;
}

std::vector<row> rows() {
  const std::vector<double> dip{50, 10, 50};
  std::vector<phase> slower, slower_idle, leak;
  for (const double s : {.05, .15, .05}) {
    slower.push_back({60, overload * 1000, 50, s});
    slower_idle.push_back({60, 300, 50, s});
  }
  for (int i = 0; i < 12; ++i) leak.push_back({10, overload * 1000, 50, .05 * std::pow(3., i / 11.)});
  std::vector<row> all;
  all.push_back({{.name = "1.3 times overload", .phases = steps({50}, .05, 120)}});
  all.push_back({{.name = "capacity 50, 10, 50", .phases = steps(dip)}, 95, 80, 2});
  all.push_back({{.name = "the same, 50 ms away", .phases = steps(dip), .rtt = .05}});
  all.push_back({{.name = "service 3 times slower", .phases = slower}});
  all.push_back({{.name = "the same, not overloaded", .phases = slower_idle}, 90, 80, 3.5, false});
  all.push_back({{.name = "lognormal, sigma 1.5", .phases = steps({50}, .05, 120), .sigma = 1.5}});
  all.push_back({{.name = "slow leak to 3 times", .phases = leak}, 90, 80, 3.5, false});
  all.push_back({{.name = "refuses beyond its bound", .phases = steps(dip), .refuse = 1.2}, 80, 70, 3.5, false});
  all.push_back({{.name = "thrashes when overloaded", .phases = steps({50}, .05, 120), .thrash = .5}});
  all.push_back({{.name = "capacity 300 from 20", .phases = steps({300}, .05, 60)}});
  all.push_back({{.name = "timeouts as cancellations", .phases = steps(dip), .timeout = .5, .is_cancelled = true}});
  all.push_back({{.name = "service of 1 s", .phases = steps({50}, 1, 600)}, 75, 70, 3.5, false});
  return all;
}

// ---- the best fixed limits ------------------------------------------------------------------------------------------

struct best {
  double good = 0;
  double limit = 0;
};

best best_fixed(const trace& t, phase p) {
  const double middle = p.capacity * (p.service + t.rtt) / p.service;
  p.length = 20 * std::max(1., p.service / .1);
  trace alone = t;
  alone.phases = {p};
  std::vector<best> tried;
  for (const double share : {.5, .7, .85, 1., 1.15, 1.3, 1.6, 2., 3.}) {
    const double limit = std::max(1., std::round(middle * share));
    fixed a{static_cast<std::uint64_t>(limit)};
    tried.push_back({run(alone, a, 1)[0].good, limit});
  }
  const double most = std::ranges::max(tried, {}, &best::good).good;
  const auto first = std::ranges::find_if(tried, [=](const best& b) { return b.good >= .985 * most; });
  return {most, first->limit};
}

// ---- what came of it ------------------------------------------------------------------------------------------------

struct score {
  double goodput = 0;           // percent of the best
  double p99 = 0;               // times the unloaded, in the worst phase
  std::vector<double> settled;  // seconds until the limit is right, in each phase
  double inside = 1;            // the share of the time after that in which it is right, in the worst phase
};

bool is_right(double limit, double best_limit) {
  return limit >= std::min(.7 * best_limit, best_limit - 2) && limit <= std::max(1.5 * best_limit, best_limit + 4);
}

score judge(const trace& t, const std::vector<best>& bests, const std::vector<tally>& tallies) {
  score s;
  double good = 0, could = 0;
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    good += tallies[i].good * t.phases[i].length;
    could += bests[i].good * t.phases[i].length;
    s.p99 = std::max(s.p99, tallies[i].p99 / unloaded_p99(t, t.phases[i]));
    const std::vector<double>& limits = tallies[i].limits;
    const auto right = [&](double limit) { return is_right(limit, bests[i].limit); };
    const auto first = std::ranges::find_if(limits, right);
    s.settled.push_back(.1 * static_cast<double>(first - limits.begin()));
    s.inside = std::min(s.inside, static_cast<double>(std::count_if(first, limits.end(), right)) /
                                      std::max(1., static_cast<double>(limits.end() - first)));
  }
  s.goodput = 100 * good / could;
  return s;
}

struct result {
  double goodput = 0, lowest = 1e9, p99 = 0, inside = 0;
  std::vector<double> settled;
};

result play(const row& r, const std::vector<best>& bests, std::unique_ptr<algorithm> (*make)(std::uint64_t),
            int seeds) {
  result all;
  for (int seed = 1; seed <= seeds; ++seed) {
    const auto a = make(static_cast<std::uint64_t>(seed));
    const score s = judge(r.t, bests, run(r.t, *a, static_cast<std::uint64_t>(seed)));
    all.goodput += s.goodput / seeds;
    all.lowest = std::min(all.lowest, s.goodput);
    all.p99 += s.p99 / seeds;
    all.inside += s.inside / seeds;
    all.settled.insert(all.settled.end(), s.settled.begin(), s.settled.end());
  }
  return all;
}

int wrong = 0;

void expect(bool ok, const std::string& what, double is) {
  if (ok) return;
  ++wrong;
  std::printf("WRONG: %s: %.2f\n", what.c_str(), is);
}

}  // namespace

int main(int argc, char** argv) {
  int seeds = 8, seeds_of_peers = 2;
  bool shows = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--seeds") && i + 1 < argc) seeds = std::atoi(argv[++i]);
    if (!std::strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
    if (!std::strcmp(argv[i], "--table")) shows = true;
  }
  seeds_of_peers = std::min(seeds, seeds_of_peers);

  std::vector<contender> others{{"aimd, 100 ms", &make_aimd}};
  others.insert(others.end(), peers().begin(), peers().end());
  std::vector<double> means(others.size() + 1);
  std::vector<double> settled;
  if (shows) {
    std::printf("| | knee | p99 | settled");
    for (const auto& o : others) std::printf(" | %s", o.name.c_str());
    std::printf(" |\n|---|---|---|---|");
    for (std::size_t i = 0; i < others.size(); ++i) std::printf("---|");
    std::printf("\n");
  }
  int played = 0;
  for (const row& r : rows()) {
    if (r.t.name.find(only) == std::string::npos) continue;
    ++played;
    std::vector<best> bests;
    for (const phase& p : r.t.phases) {
      const bool is_new = bests.empty() || p.capacity != r.t.phases[bests.size() - 1].capacity ||
                          p.service != r.t.phases[bests.size() - 1].service;
      bests.push_back(is_new ? best_fixed(r.t, p) : bests.back());
    }
    result k = play(r, bests, &make_knee, seeds);
    std::ranges::sort(k.settled);
    means[0] += k.goodput;
    if (shows) {
      std::printf("| %s | **%.0f** (%.0f) | %.1f | %.1f s", r.t.name.c_str(), k.goodput, k.lowest, k.p99,
                  k.settled[k.settled.size() / 2]);
    }
    for (std::size_t i = 0; i < others.size(); ++i) {
      const result o = play(r, bests, others[i].make, seeds_of_peers);
      means[i + 1] += o.goodput;
      if (shows) std::printf(" | %.0f", o.goodput);
    }
    if (shows) std::printf(" |\n");
    std::fflush(stdout);
    expect(k.goodput >= r.goodput, r.t.name + ": goodput", k.goodput);
    expect(k.lowest >= r.single, r.t.name + ": goodput with one of the seeds", k.lowest);
    expect(k.p99 <= r.p99, r.t.name + ": p99", k.p99);
    if (r.settles) settled.insert(settled.end(), k.settled.begin(), k.settled.end());
    if (r.t.name == "capacity 50, 10, 50") {
      const auto soon = std::ranges::upper_bound(k.settled, 5.) - k.settled.begin();
      const double share = static_cast<double>(soon) / static_cast<double>(k.settled.size());
      expect(share >= .9, r.t.name + ": the share of phases that settle within 5 s", share);
      expect(k.settled.back() <= 10, r.t.name + ": the last to settle, in seconds", k.settled.back());
      expect(k.inside >= .85, r.t.name + ": the share of the time in which the limit is right", k.inside);
    }
  }
  if (played == 0) return 1;
  for (double& m : means) m /= played;
  if (shows) {
    std::printf("| mean | **%.1f** | |", means[0]);
    for (std::size_t i = 0; i < others.size(); ++i) std::printf(" | %.1f", means[i + 1]);
    std::printf(" |\n");
  }
  std::ranges::sort(settled);
  if (!settled.empty())
    expect(settled[settled.size() / 2] <= 10, "the median time to settle", settled[settled.size() / 2]);
  for (std::size_t i = 1; only.empty() && i < others.size(); ++i) {
    expect(means[0] > means[i + 1], others[i].name + " is better in the mean", means[i + 1]);
  }
  return wrong > 0 ? 1 : 0;
}
