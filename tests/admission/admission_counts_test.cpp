#include "canigo/detail/admission/admission_counts.hpp"

#include "support/catch.hpp"

using namespace canigo;
using canigo::detail::admission_counts;

TEST_CASE("what becomes of requests is counted by class, with those that never waited", "[admission_counts]") {
  admission_counts c{2};
  c.add_grant(0, duration{700});
  c.add_grant_at_once(0);
  for (int i = 0; i < 3; ++i) c.add_grant_at_once(1);
  queue_stats s;
  s.classes.resize(2);
  s.waiting = 5;
  s.classes[1].waiting = 5;
  for (int i = 0; i < 2; ++i) {  // writing adds nothing up
    c.write(s);
    CHECK(s.granted == 5);
    CHECK(s.classes[0].granted == 2);
    CHECK(s.classes[1].granted == 3);
    CHECK(s.classes[0].wait.count() == 2);
    CHECK(s.classes[0].wait.max() == duration{700});
    CHECK(s.classes[1].wait.count() == 3);
    CHECK(s.classes[1].waiting == 5);
    CHECK(s.waiting == 5);
    CHECK(s.requested == 10);
  }
}

TEST_CASE("each way to fail is counted as what it is", "[admission_counts]") {
  admission_counts c{1};
  c.add_cancelled();
  for (int i = 0; i < 2; ++i) c.add_failure(errc::timed_out);
  for (int i = 0; i < 3; ++i) c.add_failure(errc::evicted);
  for (int i = 0; i < 4; ++i) c.add_failure(errc::stopped);
  for (const errc e : {errc::queue_full, errc::too_large, errc::deadline_unreachable, errc::invalid_priority})
    c.add_failure(e);
  queue_stats s;
  s.classes.resize(1);
  c.write(s);
  CHECK(s.cancelled == 1);
  CHECK(s.timed_out == 2);
  CHECK(s.evicted == 3);
  CHECK(s.stopped == 4);
  CHECK(s.rejected == 4);
  CHECK(s.granted == 0);
  CHECK(s.requested == 14);
}
