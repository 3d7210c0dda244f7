#include "canigo/detail/pool/pool_turn.hpp"

#include "canigo/strand_pool.hpp"

#include "support/catch.hpp"
#include "support/pool_run.hpp"

#include <thread>

using namespace canigo;
using canigo::detail::pool_turn;

TEST_CASE("a turn of the loop is of the pool that began it last, on this thread", "[pool_turn]") {
  pool_run::bench_top b;
  strand_pool one{b.io, {.concurrency = 1}};
  strand_pool other{b.io, {.concurrency = 1}};
  CHECK(pool_turn::here() == nullptr);
  CHECK_FALSE(pool_turn::is_of(*one.core()));
  {
    pool_turn outer{*one.core()};
    CHECK(pool_turn::here() == &outer);
    CHECK(outer.tasks_left == pool_turn::most_tasks);
    {
      const pool_turn inner{*other.core()};
      CHECK(pool_turn::here() == &inner);
      CHECK(pool_turn::is_of(*other.core()));
      CHECK_FALSE(pool_turn::is_of(*one.core()));
    }
    CHECK(pool_turn::is_of(*one.core()));
    bool is_there = true;
    std::thread{[&] { is_there = pool_turn::here() != nullptr; }}.join();
    CHECK_FALSE(is_there);
  }
  CHECK(pool_turn::here() == nullptr);
}

TEST_CASE("the clock is read once in a turn of one's own, and each time outside of one", "[pool_turn]") {
  pool_run::bench_top b;
  strand_pool one{b.io, {.concurrency = 1}};
  strand_pool other{b.io, {.concurrency = 1}};
  for (int i = 0; i < 2; ++i) CHECK(pool_turn::needs_time(*one.core()));
  const pool_turn outer{*one.core()};
  CHECK(pool_turn::needs_time(*one.core()));
  CHECK_FALSE(pool_turn::needs_time(*one.core()));
  for (int i = 0; i < 2; ++i) CHECK(pool_turn::needs_time(*other.core()));
  const pool_turn inner{*one.core()};
  CHECK(pool_turn::needs_time(*one.core()));
  CHECK_FALSE(pool_turn::needs_time(*one.core()));
}
