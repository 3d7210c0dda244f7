#include "canigo/testing/simulation.hpp"

#include "canigo/detail/base/random.hpp"

#include "run_clock.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace canigo::testing {
namespace {

constexpr std::size_t most_at_once = 10'000'000;

}  // namespace

simulation::simulation(std::uint64_t seed, time_point start)
    : clock_{*this, start}, start_{start}, seed_{seed}, state_{seed} {}

simulation::~simulation() {
  shutdown();
  is_down_ = true;
  // Destroying a handler may post another handler, so the loop continues until no handler is left.
  while (!ready_.empty()) const auto dropped = std::exchange(ready_, {});
  destroy();
}

// Returns a random number that is the same on all platforms. Standard libraries differ in their generators and
// distributions. So this function takes the remainder of a number from next_random().
std::uint64_t simulation::random(std::uint64_t bound) noexcept { return detail::next_random(state_) % bound; }

void simulation::push(std::unique_ptr<handler> h) {
  if (!is_down_) ready_.push_back(std::move(h));
}

bool simulation::step() {
  if (ready_.empty()) return false;
  std::swap(ready_[random(ready_.size())], ready_.back());
  const auto next = std::move(ready_.back());
  ready_.pop_back();
  ++steps_;
  next->call();
  return true;
}

std::size_t simulation::poll() {
  std::size_t handlers = 0;
  while (step()) {
    if (++handlers == most_at_once) {
      throw std::runtime_error{"simulation: " + std::to_string(handlers) +
                               " handlers have run while the time stood still: they call each other for ever; seed " +
                               std::to_string(seed_)};
    }
  }
  return handlers;
}

std::size_t simulation::run() {
  return run_clock(clock_, time_point::max(), [this] { return poll(); });
}

std::size_t simulation::run_until(time_point t) {
  const std::size_t handlers = run_clock(clock_, t, [this] { return poll(); });
  clock_.advance(t);
  return handlers + poll();
}

}  // namespace canigo::testing
