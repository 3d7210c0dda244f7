// Conformance test cases for operations on jobs and queues that do not come from a job's worker, such as a
// cancellation.
#include "conformance_cases.hpp"

#include <chrono>

namespace canigo::jobs::conformance {
namespace {

using namespace std::chrono_literals;
using requeued = requeue_answer::type;

void cancels_what_waits(world& w) {
  tool s{w};
  same(s.cancel(12345), cancel_answer::unknown);
  const auto id = s.put({.delay = 1h});
  same(s.cancel(id), cancel_answer::cancelled);
  const auto info = s.look(id);
  same(info.state, job_state::cancelled);
  expect(info.finished_at.has_value() && info.cancel_at.has_value(), "it is told when");
  same(s.cancel(id), cancel_answer::ended);
  s.advance(2h);
  same(s.claim(1).size(), 0u);
}

void cancels_what_runs(world& w) {
  tool s{w};
  tool other{w};
  const auto cancelled_run = [&] {
    const auto id = s.put({});
    const auto run = s.claim_one().lease;
    same(other.cancel(id), cancel_answer::marked);
    same(other.cancel(id), cancel_answer::marked);
    same(s.state(id), job_state::running);
    same(s.extend(run, 30s).is_cancelled, true);
    return run;
  };
  auto run = cancelled_run();
  same(s.complete(run), verdict::accepted);
  same(s.state(run.id), job_state::done);
  run = cancelled_run();
  same(s.fail_run(run), verdict::accepted);
  same(s.state(run.id), job_state::cancelled);
  run = cancelled_run();
  same(s.snooze(run, 1s), verdict::accepted);
  same(s.state(run.id), job_state::cancelled);
  run = cancelled_run();
  same(s.give_back(run), verdict::accepted);
  same(s.state(run.id), job_state::cancelled);
  run = cancelled_run();
  s.advance(1h);
  same(s.claim(1).size(), 0u);
  same(s.state(run.id), job_state::cancelled);
}

void requeues(world& w) {
  tool s{w};
  same(s.requeue(12345).what, requeued::unknown);
  const auto dead = s.put({.max_attempts = 1});
  same(s.requeue(dead).what, requeued::unended);
  auto run = s.claim_one().lease;
  same(s.requeue(dead).what, requeued::unended);
  s.fail_run(run);
  same(s.requeue(dead).what, requeued::requeued);
  auto info = s.look(dead);
  same(info.state, job_state::waiting);
  same(info.max_attempts, 2u);
  expect(!info.finished_at, "it has no end any more");
  same(info.history.size(), 1u);
  run = s.claim_one().lease;
  s.complete(run, "done");
  same(s.requeue(dead).what, requeued::requeued);
  same(s.look(dead).result, "");
  same(s.cancel(dead), cancel_answer::cancelled);
  same(s.requeue(dead).what, requeued::requeued);
  run = s.claim_one().lease;
  same(s.extend(run, 30s).is_cancelled, false);
  s.complete(run);
}

void removes(world& w) {
  tool s{w};
  same(s.remove(12345), remove_answer::unknown);
  const auto id = s.put({});
  const auto run = s.claim_one().lease;
  same(s.remove(id), remove_answer::running);
  same(s.complete(run), verdict::accepted);
  same(s.remove(id), remove_answer::removed);
  same(s.remove(id), remove_answer::unknown);
  expect(!s.wait((*s).look(id)), "it is forgotten");
  const auto waits = s.put({});
  expect(waits > id, "no number is given twice");
  same(s.remove(waits), remove_answer::removed);
  same(s.claim(1).size(), 0u);
}

void pauses(world& w) {
  tool s{w};
  tool other{w};
  s.wait((*s).pause("default"));
  s.wait((*s).pause("default"));
  const auto id = s.put({});
  same(other.claim(1).size(), 0u);
  const auto counts = other.wait((*other).count());
  expect(counts.size() == 1 && counts[0].is_paused, "count() tells of the pause");
  other.wait((*other).resume("default"));
  other.wait((*other).resume("default"));
  same(s.claim_one().lease.id, id);
}

void trims(world& w) {
  tool s{w};
  std::vector<job_id> ended;
  for (int i = 0; i < 10; ++i) {
    const auto id = s.put({});
    s.complete(s.claim_one().lease);
    ended.push_back(id);
    s.advance(1min);
  }
  const auto waits = s.put({.delay = 100h});
  s.put({.queue = "kept"});
  s.complete(s.claim(1, "kept").front().lease);
  const auto runs = s.put({});
  std::ignore = s.claim_one();
  const auto trim = [&](trim_request r) { return s.wait((*s).trim(r)); };
  same(trim({}), 0u);
  same(trim({.older_than = 10min}), 1u);
  same(trim({.older_than = 10min}), 0u);
  same(trim({.keep = 6, .limit = 2}), 2u);
  same(trim({.keep = 6, .limit = 2}), 1u);
  same(trim({.keep = 6, .limit = 2}), 0u);
  for (std::size_t i = 0; i < 10; ++i) {
    expect(s.wait((*s).look(ended[i])).has_value() == (i >= 4), "the oldest ones went");
  }
  same(trim({.older_than = 0s}), 6u);
  same(s.state(waits), job_state::waiting);
  same(s.state(runs), job_state::running);
  same(s.wait((*s).count()).size(), 2u);
  same(trim({.queue = "kept", .keep = 0}), 1u);
}

void counts_jobs(world& w) {
  tool s{w};
  same(s.wait((*s).count()).size(), 0u);
  s.put({.queue = "b"});
  for (int i = 0; i < 5; ++i) s.put({.queue = "a", .max_attempts = 1});
  const auto runs = s.claim(3, "a");
  s.complete(runs[0].lease);
  s.fail_run(runs[1].lease);
  s.cancel(s.put({.queue = "a"}));
  const auto counts = s.wait((*s).count());
  same(counts.size(), 2u);
  same(counts[0].queue, "a");
  same(counts[0].of(job_state::waiting), 2u);
  for (const auto state : {job_state::running, job_state::done, job_state::dead, job_state::cancelled}) {
    same(counts[0].of(state), 1u);
  }
  same(counts[1].of(job_state::waiting), 1u);
  same(counts[0].oldest, duration::zero());
  s.put({.queue = "a", .delay = 2h});
  s.advance(1h);
  s.put({.queue = "a", .priority = 1});
  same(s.wait((*s).count())[0].oldest, duration{1h});
  s.complete(s.claim(9, "a")[0].lease);
  same(s.wait((*s).count())[0].oldest, duration::zero());
}

}  // namespace

void add_change_cases(std::vector<test_case>& list) {
  list.insert(list.end(), {
                              {28, "the cancel of a job that waits ends it", cancels_what_waits},
                              {29, "the cancel of a job that runs is a mark", cancels_what_runs},
                              {31, "a job that has ended can run again", requeues},
                              {32, "a job that does not run can be removed", removes},
                              {33, "a queue that is paused hands out nothing", pauses},
                              {42, "jobs that ended go by age and by number", trims},
                              {44, "jobs are counted by queue and state", counts_jobs},
                          });
}

}  // namespace canigo::jobs::conformance
