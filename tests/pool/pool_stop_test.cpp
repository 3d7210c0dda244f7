#include "canigo/detail/pool/pool_stop.hpp"

#include "support/catch.hpp"

#include <chrono>

using namespace canigo;
using namespace std::chrono_literals;
using canigo::detail::pool_stop;

TEST_CASE("a stop only becomes harder", "[pool_stop]") {
  pool_stop s;
  CHECK_FALSE(s.is_asked());
  CHECK(s.raise(stop_mode::drain));
  CHECK(s.is_draining());
  CHECK_FALSE(s.raise(stop_mode::drain));
  CHECK(s.raise(stop_mode::cancel_all));
  CHECK(s.cancels());
  CHECK_FALSE(s.raise(stop_mode::finish_running));
  CHECK(s.cancels());
}

TEST_CASE("each stage of a stop does what its table says", "[pool_stop]") {
  struct row {
    stop_mode mode;
    bool tries_again, ends_with_tasks, ends_without, replaces_with_tasks, replaces_without;
  };
  for (const row& r :
       {row{stop_mode{}, true, false, false, true, true}, row{stop_mode::drain, true, false, true, true, false},
        row{stop_mode::finish_running, false, true, true, false, false},
        row{stop_mode::cancel_all, false, true, true, false, false}}) {
    pool_stop s;
    s.raise(r.mode);
    CHECK(s.is_asked() == (r.mode != stop_mode{}));
    CHECK(s.tries_again() == r.tries_again);
    CHECK(s.ends_workers(1) == r.ends_with_tasks);
    CHECK(s.ends_workers(0) == r.ends_without);
    CHECK(s.replaces_workers(1) == r.replaces_with_tasks);
    CHECK(s.replaces_workers(0) == r.replaces_without);
  }
}

TEST_CASE("of several graces the one that is over first counts, until all is cancelled anyway", "[pool_stop]") {
  const time_point start{1h};
  pool_stop s;
  s.raise(stop_mode::drain);
  CHECK(s.end_grace_at(start + 3s));
  CHECK_FALSE(s.end_grace_at(start + 3s));
  CHECK_FALSE(s.end_grace_at(start + 4s));
  CHECK(s.end_grace_at(start + 2s));
  s.raise(stop_mode::cancel_all);
  CHECK_FALSE(s.end_grace_at(start + 1s));
}
