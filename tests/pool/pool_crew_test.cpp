#include "canigo/detail/pool/pool_crew.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

using canigo::detail::crew_member;
using canigo::detail::pool_crew;
using state = crew_member::state;

TEST_CASE("the numbers of a crew are those of its members, whatever they do", "[pool_crew]") {
  std::array<crew_member, 5> members;
  std::array<bool, 5> is_long{};
  std::deque<crew_member*> idle;  // as they are to be woken
  pool_crew crew;
  std::uint32_t random = 7;
  const auto pick = [&random](std::uint32_t n) {
    random = random * 1664525u + 1013904223u;
    return (random >> 16) % n;
  };
  const auto count = [&](state s) {
    return static_cast<std::size_t>(std::ranges::count_if(members, [s](const auto& m) { return m.is(s); }));
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t at = pick(members.size());
    crew_member& m = members[at];
    if (pick(16) == 0) crew.want(pick(7));
    const bool was_idle = m.is(state::idle);
    const std::uint32_t choice = pick(8);
    if (m.is(state::gone)) {
      crew.join(m);
    } else if (choice == 0 && (!m.is(state::running) || is_long[at])) {
      crew.lose(m);
      REQUIRE(m.is(state::gone));
    } else if (m.is(state::idle)) {
      crew.wake(m);
    } else if (m.is(state::running)) {
      crew.end(m, is_long[at]);
    } else if (m.is(state::leaving)) {
      crew.stay(m);
      REQUIRE(m.is(state::awake));
    } else if (m.is(state::resting) && choice == 1) {
      crew.leave(m);
    } else if (m.is(state::resting) || m.is(state::repairing)) {
      crew.recover(m);
    } else if (m.is(state::awake)) {
      if (choice == 1) crew.leave(m);
      if (choice == 2) crew.rest(m);
      if (choice == 3) crew.repair(m);
      if (choice == 4) crew.sleep(m, true);
      if (choice == 5) crew.sleep(m, false);
      if (choice > 5) crew.begin(m, is_long[at] = choice == 6);
      if (choice == 4) idle.push_front(&m);
      if (choice == 5) idle.push_back(&m);
    }
    if (was_idle && !m.is(state::idle)) idle.erase(std::ranges::find(idle, &m));

    const std::size_t staying = members.size() - count(state::gone) - count(state::leaving);
    std::size_t running_long = 0;
    for (std::size_t n = 0; n < members.size(); ++n) running_long += members[n].is(state::running) && is_long[n];
    const std::size_t repairing = count(state::resting) + count(state::repairing);
    REQUIRE(crew.staying() == staying);
    REQUIRE(crew.is_empty() == (count(state::gone) == members.size()));
    REQUIRE(crew.running() == count(state::running));
    REQUIRE(crew.repairing() == repairing);
    REQUIRE(crew.idle() == idle.size());
    REQUIRE(crew.first_idle() == (idle.empty() ? nullptr : idle.front()));
    REQUIRE(crew.is_on_the_move() == (count(state::awake) + count(state::running) > running_long));
    REQUIRE(crew.is_short() == (staying < crew.wanted()));
    REQUIRE(crew.is_too_large() == (staying > crew.wanted()));
    const std::size_t able = std::min(staying, crew.wanted());
    const std::size_t busy = count(state::running) + repairing;
    REQUIRE(crew.able() == able);
    REQUIRE(crew.free() == (able > busy ? able - busy : 0));
  }
}

TEST_CASE("who falls asleep in front is woken first, and who does so at the back last", "[pool_crew]") {
  std::array<crew_member, 4> m;
  pool_crew crew;
  crew.want(4);
  for (auto& one : m) crew.join(one);
  crew.sleep(m[0], true);
  crew.sleep(m[1], true);
  crew.sleep(m[2], false);
  crew.sleep(m[3], true);
  crew.wake(m[1]);  // out of the middle
  for (const std::size_t next : {3u, 0u, 2u}) {
    REQUIRE(crew.first_idle() == &m[next]);
    crew.wake(m[next]);
  }
  CHECK(crew.first_idle() == nullptr);
  CHECK(crew.free() == 4);
}
