#include "traces.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace adaptive {

namespace {

constexpr double overload = 1.3;  // times the capacity at first

std::vector<phase> steps(std::vector<double> capacities, double service = .05, double length = 60) {
  std::vector<phase> all;
  const double rate = overload * capacities[0] / service;
  for (const double c : capacities) all.push_back({length, rate, c, service});
  return all;
}

best best_in(const trace& t, phase p) {
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

bool is_right(double limit, double best_limit) {
  return limit >= std::min(.7 * best_limit, best_limit - 2) && limit <= std::max(1.5 * best_limit, best_limit + 4);
}

}  // namespace

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
  all.push_back({{.name = "capacity 50, 10, 50; 50 ms away", .phases = steps(dip), .rtt = .05}});
  all.push_back({{.name = "service 3 times slower", .phases = slower}});
  all.push_back({{.name = "service 3 times slower, not overloaded", .phases = slower_idle}, 90, 80, 3.5, false});
  all.push_back({{.name = "lognormal, sigma 1.5", .phases = steps({50}, .05, 120), .sigma = 1.5}});
  all.push_back({{.name = "slow leak to 3 times", .phases = leak}, 90, 80, 3.5, false});
  all.push_back({{.name = "refuses beyond its bound", .phases = steps(dip), .refuse = 1.2}, 80, 70, 3.5, false});
  all.push_back({{.name = "thrashes when overloaded", .phases = steps({50}, .05, 120), .thrash = .5}});
  all.push_back({{.name = "capacity 300 from 20", .phases = steps({300}, .05, 60)}});
  all.push_back({{.name = "timeouts as cancellations", .phases = steps(dip), .timeout = .5, .is_cancelled = true}});
  all.push_back({{.name = "service of 1 s", .phases = steps({50}, 1, 600)}, 75, 70, 3.5, false});
  return all;
}

std::vector<row> rows_of_losses() {
  std::vector<row> all;
  const auto light = [](double rate, double lost) { return phase{60, rate, 1000, .01, lost}; };
  const auto blip = [](double lost) {
    return std::vector<phase>{{10, 1000, 1000, .01}, {3, 1000, 1000, .01, lost}, {47, 1000, 1000, .01}};
  };
  const auto lose = [&](const char* name, std::vector<phase> phases, double outer) {
    all.push_back({{.name = name, .phases = std::move(phases), .timeout = .3, .outer = outer}, 95, 90, 3.5, false});
  };
  lose("100/s, 6 % lost", {light(100, .06)}, 0);
  lose("300/s, 10 % lost", {light(300, .1)}, 0);
  lose("1000/s, 2 % lost", {light(1000, .02)}, 0);
  lose("1000/s, 4 % lost", {light(1000, .04)}, 0);
  lose("1000/s, 10 % lost for 3 s", blip(.1), 1);
  lose("1000/s, all lost for 3 s", blip(1), 1);
  return all;
}

std::vector<best> best_fixed(const trace& t) {
  std::vector<best> all;
  for (const phase& p : t.phases) {
    const bool is_new = all.empty() || p.capacity != t.phases[all.size() - 1].capacity ||
                        p.service != t.phases[all.size() - 1].service || p.lost != t.phases[all.size() - 1].lost;
    all.push_back(is_new ? best_in(t, p) : all.back());
  }
  return all;
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

}  // namespace adaptive
