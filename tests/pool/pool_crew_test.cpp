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
  pool_crew crew{true};
  for (auto& m : members) crew.add(m);
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
    if (pick(4) == 0) crew.equip(m);
    if (pick(4) == 0) crew.unequip(m);
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
      if (choice == 4 || choice == 5) crew.sleep(m);
      if (choice > 5) crew.begin(m, is_long[at] = choice == 6);
      if (m.is(state::idle)) m.is_equipped() ? idle.push_front(&m) : idle.push_back(&m);
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
    REQUIRE(crew.equipped() == static_cast<std::size_t>(std::ranges::count_if(members, &crew_member::is_equipped)));
    REQUIRE((crew.to_leave() != nullptr) == (crew.is_too_large() && !idle.empty()));
    REQUIRE((crew.to_join() != nullptr) == (crew.is_short() && count(state::gone) > 0));
    REQUIRE((crew.to_stay() != nullptr) == (crew.is_short() && count(state::leaving) > 0));
    const std::size_t able = std::min(staying, crew.wanted());
    const std::size_t busy = count(state::running) + repairing;
    REQUIRE(crew.able() == able);
    REQUIRE(crew.free() == (able > busy ? able - busy : 0));
  }
}

namespace pool_crew_test {

/// A crew of members that are awake and wanted.
struct crew_of_four {
  explicit crew_of_four(bool needs_equipment) : crew{needs_equipment} {
    crew.want(4);
    for (auto& one : m) {
      crew.add(one);
      crew.join(one);
    }
  }
  std::array<crew_member, 4> m;
  pool_crew crew;
};

}  // namespace pool_crew_test

TEST_CASE("the member that fell asleep last is woken first", "[pool_crew]") {
  pool_crew_test::crew_of_four of{false};
  for (auto& one : of.m) of.crew.sleep(one);
  of.crew.wake(of.m[1]);  // out of the middle
  for (const std::size_t next : {3u, 2u, 0u}) {
    REQUIRE(of.crew.first_idle() == &of.m[next]);
    of.crew.wake(of.m[next]);
  }
  CHECK(of.crew.first_idle() == nullptr);
  CHECK(of.crew.free() == 4);
}

TEST_CASE("members without equipment are woken last, and leave first", "[pool_crew]") {
  pool_crew_test::crew_of_four of{true};
  of.crew.equip(of.m[1]);
  of.crew.equip(of.m[3]);
  for (auto& one : of.m) of.crew.sleep(one);
  CHECK(of.crew.to_leave() == nullptr);
  of.crew.want(1);
  for (const std::size_t next : {2u, 0u, 1u}) {
    REQUIRE(of.crew.to_leave() == &of.m[next]);
    of.crew.wake(of.m[next]);
    of.crew.leave(of.m[next]);
  }
  CHECK(of.crew.to_leave() == nullptr);
  CHECK(of.crew.first_idle() == &of.m[3]);
}

TEST_CASE("of the members about to leave, an equipped one stays first, and a retired one never", "[pool_crew]") {
  pool_crew_test::crew_of_four of{true};
  of.crew.equip(of.m[2]);
  of.crew.equip(of.m[3]);
  of.crew.want(0);
  for (auto& one : of.m) of.crew.leave(one);
  of.crew.retire(of.m[3]);
  CHECK(of.m[3].is_retired());
  of.crew.want(4);
  for (const std::size_t next : {2u, 0u, 1u}) {
    REQUIRE(of.crew.to_stay() == &of.m[next]);
    of.crew.stay(of.m[next]);
  }
  CHECK(of.crew.to_stay() == nullptr);
  CHECK(of.crew.to_join() == nullptr);
  of.crew.lose(of.m[3]);
  REQUIRE(of.crew.to_join() == &of.m[3]);
  CHECK(of.crew.equipped() == 1);
  of.crew.join(of.m[3]);
  CHECK_FALSE(of.m[3].is_retired());
  CHECK(of.crew.to_join() == nullptr);
}
