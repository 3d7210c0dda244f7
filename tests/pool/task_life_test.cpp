#include "canigo/detail/pool/task_life.hpp"

#include "support/catch.hpp"

using namespace canigo;
using namespace std::chrono_literals;
using canigo::detail::task_life;
using action = task_life::action;
using event = task_life::event;
using phase = task_life::phase;

TEST_CASE("a task does what the table of its life says", "[task_life]") {
  struct row {
    event on;
    action waits, runs_long, runs_short;
  };
  for (const row& r : {row{event::cancel, action::end, action::ask, action::note},
                       row{event::stop, action::end, action::ask, action::note},
                       row{event::time, action::queue, action::ask, action::note},
                       row{event::last_time, action::end, action::ask, action::tell}}) {
    CHECK(task_life::on(r.on, phase::waits) == r.waits);
    CHECK(task_life::on(r.on, phase::runs_long) == r.runs_long);
    CHECK(task_life::on(r.on, phase::runs_short) == r.runs_short);
    CHECK(task_life::on(r.on, phase::ended) == action::nothing);
  }
}

TEST_CASE("what an operation throws counts as what asked it to end", "[task_life]") {
  CHECK(task_life::state_after_throw(task_life::cause::none) == task_state::failed);
  CHECK(task_life::state_after_throw(task_life::cause::owner) == task_state::cancelled);
  CHECK(task_life::state_after_throw(task_life::cause::stop) == task_state::cancelled);
  CHECK(task_life::state_after_throw(task_life::cause::time) == task_state::timed_out);
}

TEST_CASE("a task that waits goes on after its delay and ends at its deadline", "[task_life]") {
  const time_point start{1h};
  task_life life;
  life.deadline = start + 10s;
  life.delay = 3s;
  CHECK(life.delayed_until(start) == start + 3s);
  CHECK(life.on_time(phase::waits, start + 3s) == action::queue);
  CHECK(life.on_time(phase::waits, start + 10s) == action::end);
  life.delay = 11s;
  CHECK(life.delayed_until(start) == start + 10s);
}

TEST_CASE("an attempt is due after its timeout, or at the deadline of the task", "[task_life]") {
  const time_point start{1h};
  task_life life;
  life.retry.attempts = 2;
  life.timeout = 4s;
  life.deadline = start + 6s;
  life.begin_attempt(start);
  CHECK(life.attempts.load() == 1);
  CHECK(life.due_at == start + 4s);
  CHECK_FALSE(life.is_last_attempt());
  CHECK(life.on_time(phase::runs_short, start + 4s) == action::note);
  CHECK(life.on_time(phase::runs_short, start + 6s) == action::tell);
  life.begin_attempt(start + 4s);
  CHECK(life.started_at == start + 4s);
  CHECK(life.due_at == start + 6s);
  CHECK(life.is_last_attempt());
  CHECK(life.on_time(phase::runs_short, start + 5s) == action::tell);
  CHECK(life.on_time(phase::runs_long, start + 5s) == action::ask);
}

TEST_CASE("no attempt follows at the deadline or after it", "[task_life]") {
  const time_point start{1h};
  task_life life;
  life.retry = {.attempts = 3, .backoff = backoff::constant(2s)};
  life.deadline = start + 5s;
  life.begin_attempt(start);
  CHECK(life.next_attempt_at(start + 1s, 0) == start + 3s);
  CHECK(life.next_attempt_at(start + 3s, 0) == time_point::max());
  life.deadline = time_point::max();
  CHECK(life.next_attempt_at(start + 3s, 0) == start + 5s);
  CHECK(life.next_attempt_at(start + 3s, 0, 1s) == start + 5s);
  CHECK(life.next_attempt_at(start + 3s, 0, 4s) == start + 7s);
}

TEST_CASE("each attempt but the first takes a retry out of the budget, unless it would come too late", "[task_life]") {
  const time_point start{1h};
  retry_budget budget{{.percent = 0, .reserve = 2}};
  task_life life;
  life.retry = {.attempts = 9, .backoff = backoff::constant(2s), .budget = &budget};
  life.deadline = start + 5s;
  life.begin_attempt(start);
  CHECK(life.next_attempt_at(start + 3s, 0) == time_point::max());
  CHECK(budget.left() == 2);
  CHECK(life.next_attempt_at(start, 0) == start + 2s);
  CHECK(life.next_attempt_at(start, 0) == start + 2s);
  CHECK(life.next_attempt_at(start, 0) == time_point::max());
}

TEST_CASE("a task is overdue once its last attempt is late, and no more once another one follows", "[task_life]") {
  const time_point start{1h};
  task_life life;
  life.retry = {.attempts = 2, .backoff = backoff::constant(1s)};
  life.timeout = 4s;
  life.begin_attempt(start);
  CHECK_FALSE(life.is_overdue(start + 4s));
  life.is_late = true;
  CHECK_FALSE(life.is_overdue(start + 4s));
  CHECK(life.next_attempt_at(start + 4s, 0) == start + 5s);
  CHECK_FALSE(life.is_late);
  life.begin_attempt(start + 5s);
  CHECK_FALSE(life.is_overdue(start + 9s));
  life.is_late = true;
  CHECK(life.is_overdue(start + 9s));
}
