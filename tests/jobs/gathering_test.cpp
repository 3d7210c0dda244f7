#include "../../lib/jobs/gathering.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

using canigo::duration;
using canigo::jobs::detail::gathering;

namespace {

/// After a transaction of so many steps that took long.
gathering after(std::size_t last) {
  gathering g;
  g.note(last, [] { std::this_thread::sleep_for(std::chrono::milliseconds{40}); });
  return g;
}

struct wait {
  std::size_t looks = 0;
  std::size_t found = 0;
};

/// How often it looks for more steps, and how many it finds. `there` are those that it sees.
wait wait_of(const gathering& g, const std::vector<std::size_t>& there) {
  wait w;
  w.found = g.wait([&] { return there.at(w.looks++); });
  CHECK(w.found == there.at(w.looks - 1));
  return w;
}

}  // namespace

TEST_CASE("steps that come again together are waited for while more come", "[jobs][realtime]") {
  for (const auto& there : std::vector<std::vector<std::size_t>>{{1, 5, 8}, {1, 5, 5}}) {
    const wait w = wait_of(after(8), there);
    CHECK(w.looks >= 1);  // a machine may be slow
    CHECK(w.looks <= 3);
  }
  CHECK(wait_of(after(8), {8}).looks == 1);
}

TEST_CASE("the steps of one worker, and no steps, wait for nobody", "[jobs][realtime]") {
  CHECK(wait_of(after(3), {1}).looks == 1);
  CHECK(wait_of(after(1), {1}).looks == 1);
  CHECK(wait_of(after(8), {0}).looks == 1);
  CHECK(wait_of(gathering{}, {5}).looks == 1);
}

TEST_CASE("steps that come again together are waited for at all, for a part of what the last ones took",
          "[jobs][realtime]") {
  const gathering g = after(4);
  std::size_t most = 0;
  // A machine may be slow, but not in each of so many tries.
  for (int tries = 0; tries < 1000 && most < 3; ++tries) most = std::max(most, wait_of(g, {1, 2, 3, 4}).looks);
  CHECK(most >= 3);
  duration shortest = std::chrono::hours{1};
  for (int tries = 0; tries < 20 && shortest > std::chrono::milliseconds{80}; ++tries) {
    const auto begun = std::chrono::steady_clock::now();
    std::size_t n = 0;
    CHECK(g.wait([&n] { return n = n == 1 ? 2 : 1; }) < 4);  // always another number, and never all
    shortest = std::min<duration>(shortest, std::chrono::steady_clock::now() - begun);
  }
  CHECK(shortest >= std::chrono::milliseconds{5});
  CHECK(shortest <= std::chrono::milliseconds{80});
  gathering quick;
  quick.note(4, [] {});
  CHECK(wait_of(quick, {1}).looks == 1);  // the others would not come in time
}
