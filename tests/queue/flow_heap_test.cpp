#include "canigo/detail/queue/flow_heap.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace flow_heap_tests {

using canigo::detail::flow_bits;
using canigo::detail::uint128;
using heap = canigo::detail::flow_heap<std::less<>>;

uint128 key(std::uint64_t rank, std::uint32_t flow) { return uint128{rank} << flow_bits | flow; }

}  // namespace flow_heap_tests

using namespace flow_heap_tests;

TEST_CASE("a heap of flows gives the least key, and each flow is in it once", "[flow_heap]") {
  heap h{{}};
  h.make_room_for(4);
  CHECK(h.empty());
  h.put(key(5, 0));
  h.put(key(3, 1));
  h.put(key(4, 2));
  CHECK(h.size() == 3);
  CHECK(heap::number_of(h.top()) == 1);
  h.put(key(6, 1));
  CHECK(h.size() == 3);
  CHECK(heap::number_of(h.top()) == 2);
  h.erase(2);
  h.erase(2);
  CHECK_FALSE(h.has(2));
  CHECK(heap::number_of(h.top()) == 0);
  h.put(key(1, 1));
  CHECK(h.top() == key(1, 1));
  h.erase(1);
  h.erase(0);
  CHECK(h.empty());
}

TEST_CASE("a heap of flows orders as sorting would, whatever comes, goes and changes", "[flow_heap]") {
  std::mt19937 random{1};
  for (const std::uint32_t flows : {1u, 2u, 5u, 6u, 21u, 200u}) {
    heap h{{}};
    h.make_room_for(flows);
    std::vector<std::uint64_t> there(flows, 0);  // 0: not in it
    for (int i = 0; i < 20'000; ++i) {
      const auto flow = static_cast<std::uint32_t>(random() % flows);
      if (random() % 3 == 0) {
        there[flow] = 0;
        h.erase(flow);
      } else {
        there[flow] = 1 + random() % 1000;
        h.put(key(there[flow], flow));
      }
      uint128 least = ~uint128{0};
      for (std::uint32_t f = 0; f < flows; ++f) {
        if (there[f] != 0) least = std::min(least, key(there[f], f));
      }
      REQUIRE(h.empty() == (least == ~uint128{0}));
      if (!h.empty()) REQUIRE(h.top() == least);
    }
  }
}

TEST_CASE("the places of a flow and its number share a word, and no flow costs nothing", "[flow_heap]") {
  using canigo::detail::flow_places;
  for (const std::uint64_t places : {std::uint64_t{0}, std::uint64_t{1}, flow_places::most}) {
    for (const std::uint32_t flow : {1u, 77u, (1u << flow_bits) - 1}) {
      const std::uint64_t word = flow_places::join(places, flow);
      CHECK(flow_places::places(word) == places);
      CHECK(flow_places::flow(word) == flow);
    }
  }
  constexpr std::uint64_t most = std::uint64_t{1} << 62;  // of a semaphore
  CHECK(flow_places::join(most, 0) == most);
  CHECK(flow_places::places(most) == most);
  CHECK(flow_places::flow(most) == 0);
}
