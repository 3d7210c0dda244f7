#include "canigo/detail/queue/channel_room.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

using namespace canigo::detail;

namespace {

constexpr std::uint64_t without_bound = ~std::uint64_t{0};

/// A value of so many bytes goes in if the channel may hold it now.
bool goes_in(channel_room& c, std::uint64_t bytes) {
  if (!c.can_ever_hold(bytes) || !c.allows(bytes) || !c.is_there_for(bytes)) return false;
  c.enter(bytes);
  return true;
}

}  // namespace

TEST_CASE("a channel holds so many values, and so many bytes", "[channel]") {
  shared_room all{{3, 10}};
  channel_room c{all, {3, 10}, {}};
  CHECK((goes_in(c, 4) && goes_in(c, 6)));
  CHECK_FALSE(goes_in(c, 1));
  CHECK(goes_in(c, 0));
  CHECK_FALSE(goes_in(c, 0));
  CHECK((c.used().items == 3 && c.used().bytes == 10 && all.used().items == 3 && all.used().bytes == 10));
  c.leave(6);
  CHECK_FALSE(goes_in(c, 7));
  CHECK(goes_in(c, 6));
  CHECK((c.largest() == 10 && !c.can_ever_hold(11)));
}

TEST_CASE("without a bound a channel holds up to 2^62", "[channel]") {
  shared_room all{{without_bound, without_bound}};
  channel_room c{all, {without_bound, without_bound}, {}};
  CHECK((c.limit().items == shared_room::most && c.limit().bytes == shared_room::most));
  CHECK_FALSE(c.can_ever_hold(shared_room::most + 1));
  CHECK_FALSE(c.can_ever_hold(without_bound));
  CHECK(goes_in(c, shared_room::most));
  CHECK_FALSE(goes_in(c, 1));
  CHECK(goes_in(c, 0));
}

TEST_CASE("room that is reserved for a channel is there for it, and for no other one", "[channel]") {
  shared_room all{{without_bound, 100}};
  channel_room greedy{all, {without_bound, without_bound}, {}};
  channel_room modest{all, {without_bound, without_bound}, {0, 30}};
  CHECK(all.unassigned().bytes == 70);
  CHECK((greedy.largest() == 70 && modest.largest() == 100));
  CHECK(goes_in(greedy, 70));
  CHECK_FALSE(goes_in(greedy, 1));
  CHECK((modest.is_reserved_for(30) && !modest.is_reserved_for(31) && !greedy.is_reserved_for(1)));
  CHECK((goes_in(modest, 20) && goes_in(modest, 10)));
  CHECK_FALSE(goes_in(modest, 1));
  greedy.leave(70);
  CHECK(goes_in(modest, 40));
  CHECK_FALSE(goes_in(greedy, 31));
  CHECK(goes_in(greedy, 30));
}

TEST_CASE("a channel that joins late gets its reserved room when others have left it", "[channel]") {
  shared_room all{{10, without_bound}};
  channel_room old{all, {without_bound, without_bound}, {}};
  for (int i = 0; i < 9; ++i) REQUIRE(goes_in(old, 0));
  channel_room late{all, {without_bound, without_bound}, {3, 0}};
  CHECK(all.is_promised_twice());
  CHECK_FALSE(goes_in(old, 0));
  CHECK(goes_in(late, 0));
  CHECK_FALSE(goes_in(late, 0));  // never more than there is
  old.leave(0);
  CHECK(all.is_promised_twice());
  CHECK_FALSE(goes_in(old, 0));
  CHECK(goes_in(late, 0));
  old.leave(0);
  CHECK_FALSE(all.is_promised_twice());
  CHECK(goes_in(late, 0));
  CHECK_FALSE(goes_in(old, 0));
  late.quit();
  CHECK((all.unassigned().items == 10 && all.used().items == 7));
  CHECK(goes_in(old, 0));
}

TEST_CASE("a value is charged by the measure of which it takes most", "[channel]") {
  constexpr std::uint64_t whole = 1 << 20;
  const shared_room both{{64, 1024}};
  CHECK((both.charge_for(0) == whole / 64 && both.charge_for(16) == whole / 64 && both.charge_for(512) == whole / 2));
  const shared_room bytes{{without_bound, 1024}};
  CHECK((bytes.charge_for(0) == 1 && bytes.charge_for(512) == whole / 2 && bytes.charge_for(1024) == whole));
  const shared_room items{{2, without_bound}};
  CHECK((items.charge_for(0) == whole / 2 && items.charge_for(std::uint64_t{1} << 62) == whole));
}

TEST_CASE("whatever comes and goes, no bound is passed, and reserved room is there", "[channel]") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::minstd_rand random{seed + 1};
    const auto up_to = [&](std::uint64_t n) { return random() % (n + 1); };
    const channel_load limit{1 + up_to(12), 1 + up_to(40)};
    shared_room all{limit};
    std::vector<std::unique_ptr<channel_room>> channels;
    std::vector<channel_load> reserved;
    for (int i = 0; i < 3; ++i) {
      const channel_load free = all.unassigned();
      reserved.push_back({up_to(free.items), up_to(free.bytes)});
      const channel_load own{std::max(reserved.back().items, 1 + up_to(12)),
                             std::max(reserved.back().bytes, 1 + up_to(40))};
      channels.push_back(std::make_unique<channel_room>(all, own, reserved.back()));
    }
    std::array<std::vector<std::uint64_t>, 3> inside;
    for (int step = 0; step < 300; ++step) {
      const std::size_t i = up_to(2);
      channel_room& c = *channels[i];
      if (up_to(2) == 0 && !inside[i].empty()) {
        c.leave(inside[i].back());
        inside[i].pop_back();
      } else {
        const std::uint64_t bytes = up_to(10);
        const channel_load before = c.used();
        const bool is_reserved = before.items + 1 <= reserved[i].items && before.bytes + bytes <= reserved[i].bytes;
        REQUIRE(c.is_reserved_for(bytes) == is_reserved);
        const bool went = goes_in(c, bytes);
        REQUIRE((went || !is_reserved));
        if (went) inside[i].push_back(bytes);
      }
      channel_load sum;
      channel_load kept;
      for (std::size_t k = 0; k < 3; ++k) {
        const channel_load used = channels[k]->used();
        std::uint64_t bytes = 0;
        for (const std::uint64_t b : inside[k]) bytes += b;
        REQUIRE((used.items == inside[k].size() && used.bytes == bytes));
        REQUIRE((used.items <= channels[k]->limit().items && used.bytes <= channels[k]->limit().bytes));
        sum.items += used.items;
        sum.bytes += used.bytes;
        kept.items += std::max(used.items, reserved[k].items);
        kept.bytes += std::max(used.bytes, reserved[k].bytes);
      }
      REQUIRE((sum.items == all.used().items && sum.bytes == all.used().bytes));
      REQUIRE((kept.items <= limit.items && kept.bytes <= limit.bytes));
    }
  }
}
