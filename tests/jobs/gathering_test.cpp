#include "../../lib/jobs/gathering.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

using canigo::jobs::detail::gathering;

namespace {

/// How often it looks for more steps, after a transaction of so many that took long. `there` are those that it finds.
std::size_t looks_after(std::size_t last, const std::vector<std::size_t>& there) {
  gathering g;
  g.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds{40});
  g.end(last);
  std::size_t looks = 0;
  g.wait([&] { return there.at(looks++); });
  return looks;
}

}  // namespace

TEST_CASE("steps that come again together are waited for while more come", "[jobs][realtime]") {
  for (const auto& there : std::vector<std::vector<std::size_t>>{{1, 5, 8}, {1, 5, 5}}) {
    const std::size_t looks = looks_after(8, there);
    CHECK(looks >= 1);  // a machine may be slow
    CHECK(looks <= 3);
  }
  CHECK(looks_after(8, {8}) == 1);
}

TEST_CASE("the two steps of one worker wait for nobody", "[jobs][realtime]") {
  CHECK(looks_after(2, {}) == 0);
  CHECK(looks_after(1, {}) == 0);
}
