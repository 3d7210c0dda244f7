#include "stealing_simulation.hpp"

#include "canigo/detail/base/random.hpp"

#include "shortage.hpp"

#include <asio/post.hpp>

namespace simulated {

bool stealing_simulation::step() {
  disturb();
  io_.restart();
  return io_.poll_one() > 0;
}

void stealing_simulation::disturb() {
  const plenty here;
  for (std::uint64_t n = canigo::detail::next_random(state_) % 4; n > 1; --n) {
    canigo::net::post(get_executor(), [this] {
      for (std::uint64_t turns = canigo::detail::next_random(state_) % 3; turns > 0; --turns) io_.poll_one();
    });
  }
}

}  // namespace simulated
