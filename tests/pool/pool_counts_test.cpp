#include "canigo/detail/pool/pool_counts.hpp"

#include "support/catch.hpp"

using namespace canigo;
using canigo::detail::pool_counts;

TEST_CASE("each end of a task is counted as what it is", "[pool_counts]") {
  pool_counts c;
  const task_state ends[] = {task_state::succeeded, task_state::failed, task_state::cancelled, task_state::timed_out,
                             task_state::stopped};
  for (int i = 0; i < 5; ++i) {
    for (int n = 0; n <= i; ++n) c.add_end(ends[i], nullptr);
  }
  CHECK(c.report.succeeded == 1);
  CHECK(c.report.failed == 2);
  CHECK(c.report.cancelled == 3);
  CHECK(c.report.timed_out == 4);
  CHECK(c.report.stopped == 5);
  CHECK(c.report.submitted == 0);
}

TEST_CASE("an end counts for the name of the task, too", "[pool_counts]") {
  pool_counts c;
  name_stats name;
  for (const task_state s : {task_state::succeeded, task_state::failed, task_state::timed_out}) c.add_end(s, &name);
  CHECK(name.succeeded == 1);
  CHECK(name.failed == 2);
}

TEST_CASE("the statistics of a pool have every one of its counts", "[pool_counts]") {
  const pool_counts c{.report = {.submitted = 1,
                                 .succeeded = 2,
                                 .failed = 3,
                                 .cancelled = 4,
                                 .timed_out = 5,
                                 .stopped = 6,
                                 .escalated = 7,
                                 .cause = nullptr},
                      .rejected = 8,
                      .evicted = 9,
                      .retries = 10,
                      .restarts = 11,
                      .overdue = 12};
  pool_stats s;
  c.write(s);
  CHECK(s.submitted == 1);
  CHECK(s.succeeded == 2);
  CHECK(s.failed == 3);
  CHECK(s.cancelled == 4);
  CHECK(s.timed_out == 5);
  CHECK(s.stopped == 6);
  CHECK(s.rejected == 8);
  CHECK(s.evicted == 9);
  CHECK(s.retries == 10);
  CHECK(s.restarts == 11);
  CHECK(s.overdue_total == 12);
}
