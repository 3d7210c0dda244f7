#include "canigo/detail/keyed/key_state.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <limits>

namespace key_state_test {

using canigo::detail::key_level;
using canigo::detail::key_room;
using canigo::detail::key_state;

TEST_CASE("a key has its level, or a room", "[key_state]") {
  key_state s{key_level{-5, 7}};
  CHECK_FALSE(s.is_room());
  CHECK(s.room() == nullptr);
  CHECK(s.level().origin == -5);
  s.level().taken += 2;
  CHECK(s.level().taken == 9);

  key_room r;
  s.enter(r);
  CHECK(s.is_room());
  CHECK(s.room() == &r);

  s = key_state{key_level{3, 0}};
  CHECK_FALSE(s.is_room());
  CHECK(s.level().origin == 3);
}

TEST_CASE("no level looks like a room", "[key_state]") {
  // The most that a bucket counts as taken, and the most permits of a semaphore.
  constexpr std::uint64_t most_of_bucket = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62) - 1;
  for (const std::uint64_t taken : {std::uint64_t{0}, std::uint64_t{1} << 62, most_of_bucket}) {
    const key_state s{key_level{std::numeric_limits<std::int64_t>::max(), taken}};
    CHECK_FALSE(s.is_room());
  }
  static_assert(sizeof(key_state) == 16);
}

}  // namespace key_state_test
