#include "canigo/detail/pool/pool_groups.hpp"

#include "canigo/detail/pool/pool_waiter_list.hpp"

#include "support/catch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using canigo::detail::pool_group_member;
using canigo::detail::pool_groups;
using canigo::detail::pool_waiter_link;
using canigo::detail::pool_waiter_list;

namespace {

/// Who is in a group, as indices in `all`.
template <std::size_t N>
std::vector<std::size_t> members(pool_groups& groups, std::uint64_t id, const std::array<pool_group_member, N>& all) {
  std::vector<std::size_t> found;
  for (pool_group_member* m = groups.first(id); m != nullptr; m = m->next_in_group())
    found.push_back(static_cast<std::size_t>(m - all.data()));
  return found;
}

using indices = std::vector<std::size_t>;

}  // namespace

TEST_CASE("of those who wait for the same each can go by itself, and all can be taken over", "[pool_groups]") {
  std::array<pool_waiter_link, 4> l;
  pool_waiter_list list;
  pool_waiter_list::remove(l[0]);  // on none
  for (auto& one : l) list.push(one);
  CHECK(list.first() == &l[3]);
  pool_waiter_list::remove(l[3]);
  CHECK(list.first() == &l[2]);
  pool_waiter_list::remove(l[1]);
  pool_waiter_list taken{std::move(list)};
  CHECK(list.empty());
  CHECK(taken.first() == &l[2]);
  pool_waiter_list::remove(l[2]);
  CHECK(taken.first() == &l[0]);
  pool_waiter_list::remove(l[0]);
  pool_waiter_list::remove(l[0]);
  CHECK(taken.empty());
  list.push(l[1]);
  CHECK(list.first() == &l[1]);
}

TEST_CASE("a group is there as long as somebody is in it", "[pool_groups]") {
  pool_groups groups;
  std::array<pool_group_member, 5> m;
  for (std::size_t i = 0; i < 4; ++i) {
    m[i].choose_group(i < 3 ? 7 : 8);
    groups.join(m[i]);
  }
  m[4].choose_group(0);
  groups.join(m[4]);
  CHECK(m[4].group() == 0);
  CHECK(members(groups, 7, m) == indices{2, 1, 0});
  CHECK(members(groups, 8, m) == indices{3});
  CHECK(groups.first(0) == nullptr);
  CHECK(groups.waiters(9) == nullptr);
  CHECK(groups.leave(m[1]).empty());
  CHECK(members(groups, 7, m) == indices{2, 0});
  CHECK(groups.leave(m[2]).empty());
  CHECK(groups.leave(m[0]).empty());
  CHECK(groups.waiters(7) == nullptr);
  CHECK(groups.leave(m[4]).empty());
  CHECK(members(groups, 8, m) == indices{3});
}

TEST_CASE("who waits for a group is handed over when the last one leaves it", "[pool_groups]") {
  pool_groups groups;
  std::array<pool_group_member, 2> m;
  for (auto& one : m) {
    one.choose_group(7);
    groups.join(one);
  }
  std::array<pool_waiter_link, 3> l;
  for (auto& one : l) groups.waiters(7)->push(one);
  std::size_t lists = 0;
  groups.for_each_list([&](pool_waiter_list& list) { lists += list.empty() ? 0 : 1; });
  CHECK(lists == 1);
  CHECK(groups.leave(m[0]).empty());
  pool_waiter_list::remove(l[1]);  // has given up
  pool_waiter_list told = groups.leave(m[1]);
  CHECK(told.first() == &l[2]);
  pool_waiter_list::remove(l[2]);
  CHECK(told.first() == &l[0]);
  pool_waiter_list::remove(l[0]);
  CHECK(told.empty());
}
