// Pools with flows, retries, hedges, keyed limits, policies inside policies and limiters with alternatives: under
// random deeds in random orders, against what they promise.
//
//   policy_simulation_test [--seeds N] [--from SEED]   plays N seeds; a violation is printed, and ends the program
//   policy_simulation_test --seed SEED                 plays one seed, twice
//   policy_simulation_test --only NAME …               of one kind: pool_flows, retries, hedges, keys, nested, choices

#include "choice_world.hpp"
#include "keyed_world.hpp"
#include "nested_world.hpp"
#include "pool_flow_world.hpp"
#include "repeat_world.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace simulated;

int main(int argc, char** argv) {
  std::uint64_t seeds = 20'000, from = 0;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--only") only = argv[i + 1];
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--seeds") seeds = value;
    if (name == "--from") from = value;
    if (name == "--seed") from = value, seeds = 1;
  }
  constexpr struct {
    const char* name;
    verdict (*play)(std::uint64_t);
  } kinds[] = {{"pool_flows", play_pool_flows}, {"retries", play_retries}, {"hedges", play_hedges}, {"keys", play_keys},
               {"nested", play_nested},         {"choices", play_choices}};
  // A seed that fails is to fail when it is played alone, too: what was played before must not matter.
  constexpr std::uint64_t played_again = 300;
  for (const auto& kind : kinds) {
    if (!only.empty() && only != kind.name) continue;
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t deeds = 0;
    canigo::duration simulated{};
    for (std::uint64_t seed = from; seed < from + seeds; ++seed) {
      const verdict v = kind.play(seed);
      if (!v.is_good) {
        std::printf("seed=%llu step=%zu %s\n", static_cast<unsigned long long>(seed), v.step, v.what.c_str());
        return 1;
      }
      if (seed - from < played_again && kind.play(seed).hash != v.hash) {
        std::printf("seed=%llu of %s comes to something else when it is played again\n",
                    static_cast<unsigned long long>(seed), kind.name);
        return 1;
      }
      deeds += v.acquires;
      simulated += v.simulated;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%s: %llu seeds, %llu requests, tasks or operations, %.0f s simulated in %.2f s: no violation\n",
                kind.name, static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(deeds),
                static_cast<double>(simulated.count()) / 1e9, took.count());
    if (seeds >= 1'000 && deeds < 3 * seeds) return 1;  // it is not what it was
  }
  return 0;
}
