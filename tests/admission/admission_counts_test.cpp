#include "canigo/detail/admission/admission_counts.hpp"

#include "canigo/scheduler.hpp"
#include "canigo/testing/virtual_time.hpp"

#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <system_error>

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

TEST_CASE("a request that was refused counts by its cause, and the causes add up", "[admission_counts]") {
  net::io_context io;
  testing::virtual_time time{io};
  scheduler s{io, {.rate = rate::per_second(1), .burst = 2, .queue_limit = 1}};
  const auto ask = [&](request r) { s.async_acquire(r, [](std::error_code) {}); };
  CHECK_FALSE(s.try_acquire(0));
  ask({});  // waits
  ask({});
  ask({});
  ask({.tokens = 3});
  ask({.priority = 1});
  ask({.tokens = 0});
  ask({.deadline = time.now() + std::chrono::milliseconds{1}});
  time.poll();
  const queue_stats all = s.stats();
  const rejection_stats& r = all.rejections;
  CHECK(r.not_there == 1);
  CHECK(r.queue_full == 2);
  CHECK(r.too_large == 1);
  CHECK(r.invalid == 2);
  CHECK(r.unreachable == 1);
  CHECK(r.other == 0);
  CHECK(all.rejected == 7);
  CHECK(all.requested == 8);
  s.stop();
  time.run();
}
