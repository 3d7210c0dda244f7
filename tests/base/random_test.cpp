#include "canigo/detail/base/random.hpp"

#include "support/catch.hpp"

#include <cstdint>

TEST_CASE("random bits are those of the published generator", "[random]") {
  std::uint64_t state = 1234567;
  for (const std::uint64_t wanted : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                     4593380528125082431u, 16408922859458223821u}) {
    CHECK(canigo::detail::next_random(state) == wanted);
  }
}
