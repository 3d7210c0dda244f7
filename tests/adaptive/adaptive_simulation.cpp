// The adaptive limits in a model of a service: what they make of it that a fixed limit, the best for each phase, would
// have made of it, and how they compare with the algorithms of other libraries. bench/adaptive_bench.cpp has the other
// libraries themselves in the same model.
//
// adaptive_simulation [--seeds N] [--only TEXT] [--table]
//
// It ends with 1 if a bound does not hold. --table prints goodput in percent of the best fixed limits', as in
// docs/policies.md.

#include "ours.hpp"
#include "peers.hpp"
#include "service.hpp"
#include "traces.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace adaptive;

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

  std::vector<contender> others{ours().begin() + 1, ours().end()};
  others.insert(others.end(), peers().begin(), peers().end());
  std::vector<double> means(others.size() + 1);
  std::vector<double> settled;
  if (shows) {
    std::printf("| trace | goodput with knee | p99 with knee | knee settles in");
    for (const auto& o : others) std::printf(" | %s", o.name.c_str());
    std::printf(" |\n|---|---|---|---|");
    for (std::size_t i = 0; i < others.size(); ++i) std::printf("---|");
    std::printf("\n");
  }
  int played = 0;
  std::vector<row> all = rows();
  std::ranges::move(rows_of_losses(), std::back_inserter(all));
  for (const row& r : all) {
    if (r.t.name.find(only) == std::string::npos) continue;
    ++played;
    const std::vector<best> bests = best_fixed(r.t);
    result k = play(r, bests, ours().front().make, seeds);
    std::ranges::sort(k.settled);
    means[0] += k.goodput;
    if (shows) {
      std::printf("| %s | **%.0f** (%.0f) | %.1f", r.t.name.c_str(), k.goodput, k.lowest, k.p99);
      const bool binds = std::ranges::none_of(r.t.phases, [](const phase& p) { return p.lost > 0; });
      binds ? std::printf(" | %.1f s", k.settled[k.settled.size() / 2]) : std::printf(" | -");
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
    std::printf("| mean goodput | **%.1f** | |", means[0]);
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
