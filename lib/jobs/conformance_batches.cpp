// Conformance cases about jobs that wait for the end of a batch.
#include "conformance_cases.hpp"

#include <chrono>

namespace canigo::jobs::conformance {
namespace {

using namespace std::chrono_literals;

new_job of_batch(std::string name, std::string queue = "default") {
  return {.queue = std::move(queue), .kind = "kind", .batch = std::move(name)};
}
new_job after(std::string name, std::string queue = "last") {
  return {.queue = std::move(queue), .kind = "kind", .after_batch = std::move(name)};
}

/// Checks that a job waits for the end of a batch, and that it can't be claimed. The queue "last" must have no other
/// job that can be claimed.
void waits(tool& s, job_id id, const place& at = place::current()) {
  same(s.state(id, at), job_state::waiting, at);
  expect(s.look(id, at).run_at == instant::max(), "it waits for the batch", at);
  same(s.claim(9, "last").size(), 0u, at);
}
void is_due(tool& s, job_id id, const place& at = place::current()) {
  const auto list = s.claim(9, "last");
  same(list.size(), 1u, at);
  same(list[0].lease.id, id, at);
}

void begins_after_all(world& w) {
  tool s{w};
  auto last_attempt = of_batch("import");
  last_attempt.max_attempts = 1;
  auto in_time = of_batch("import", "later");
  in_time.expires_in = 1h;
  const auto put = s.wait((*s).put_all({of_batch("import"), after("import"), last_attempt, of_batch("other"),
                                        of_batch("import", "later"), of_batch("import", "later"), in_time}));
  const auto id = put[1].id;
  expect(s.look(put[0].id).batch == "import" && s.look(id).after_batch == "import", "both are told");
  waits(s, id);
  const auto run = s.claim(9);
  same(run.size(), 3u);
  same(s.next_due("last"), s.next_due("nobody knows it"));
  same(s.complete(run[0].lease), verdict::accepted);
  waits(s, id);
  same(s.fail_run(run[1].lease), verdict::accepted);
  same(s.state(run[1].lease.id), job_state::dead);
  waits(s, id);
  same(s.cancel(put[4].id), cancel_answer::cancelled);
  same(s.remove(put[5].id), remove_answer::removed);
  waits(s, id);
  s.advance(1h);
  s.reap();
  same(s.state(put[6].id), job_state::dead);
  same(s.next_due("last"), duration::zero());
  is_due(s, id);
}

void has_not_ended(world& w) {
  tool s{w};
  const auto put = s.wait((*s).put_all({of_batch("b"), after("b")}));
  const auto id = put[1].id;
  s.fail_run(s.claim_one().lease);
  waits(s, id);
  s.snooze(s.claim_one().lease, 0s);
  waits(s, id);
  s.give_back(s.claim_one().lease);
  waits(s, id);
  s.claim_one();
  s.advance(1h);
  s.reap();
  s.advance(1h);
  waits(s, id);
  const auto run = s.claim_one().lease;
  same(s.cancel(run.id), cancel_answer::marked);
  waits(s, id);
  same(s.give_back(run), verdict::accepted);
  is_due(s, id);
}

void may_grow(world& w) {
  tool s{w};
  tool other{w};
  const auto id = s.put(after("g", "early"));
  // The batch has no job yet, so the job that waits for the batch can begin.
  same(s.claim_one_of("early").lease.id, id);
  s.put(of_batch("g"));
  const auto first = s.claim_one().lease;
  const auto last = other.put(after("g"));
  const auto another = s.put(after("g", "third"));
  // The batch gets another job before its first job ends, so the batch does not end with its first job.
  s.put(of_batch("g"));
  same(s.complete(first), verdict::accepted);
  waits(s, last);
  same(other.complete(other.claim_one().lease), verdict::accepted);
  is_due(other, last);
  same(s.claim_one_of("third").lease.id, another);
}

void runs_again(world& w) {
  tool s{w};
  const auto put = s.wait((*s).put_all({of_batch("b"), of_batch("b"), after("b")}));
  const auto run = s.claim(2);
  same(s.complete(run[0].lease), verdict::accepted);
  same(s.requeue(run[0].lease.id).what, requeue_answer::type::requeued);
  same(s.complete(run[1].lease), verdict::accepted);
  waits(s, put[2].id);
  same(s.complete(s.claim_one().lease), verdict::accepted);
  is_due(s, put[2].id);
  // The job that waited for the batch has begun. So it does not matter any more that a job of the batch runs again.
  same(s.requeue(run[1].lease.id).what, requeue_answer::type::requeued);
  same(s.complete(s.claim_one().lease), verdict::accepted);
  same(s.claim(9, "last").size(), 0u);
}

void is_a_job(world& w) {
  tool s{w};
  auto in_time = after("b");
  in_time.expires_in = 1h;
  const auto put = s.wait((*s).put_all({of_batch("b"), in_time, after("b"), after("b")}));
  same(s.cancel(put[2].id), cancel_answer::cancelled);
  same(s.remove(put[3].id), remove_answer::removed);
  s.advance(1h);
  s.reap();
  same(s.state(put[1].id), job_state::dead);
  same(s.complete(s.claim_one().lease), verdict::accepted);
  same(s.claim(9, "last").size(), 0u);
}

void lists_a_batch(world& w) {
  tool s{w};
  const auto put = s.wait((*s).put_all({of_batch("a"), of_batch("b"), of_batch("a"), after("a")}));
  list_request of_a{.batch = "a"};
  const auto found = s.wait((*s).list(of_a));
  same(found.size(), 2u);
  same(found[0].id, put[0].id);
  same(found[1].id, put[2].id);
  expect(found[1].batch == "a", "a list tells the batch");
  of_a.state = job_state::dead;
  same(s.wait((*s).list(of_a)).size(), 0u);
}

void refuses_what_conflicts(world& w) {
  tool s{w};
  const auto refused = [&](const new_job& j, const place& at = place::current()) {
    expect(s.error_of((*s).put(j)) == std::errc::invalid_argument, "it is refused", at);
  };
  refused(of_batch(std::string(most_name + 1, 'b')));
  refused(after(std::string(most_name + 1, 'b')));
  auto j = after("b");
  j.batch = "b";
  refused(j);
  j = after("b");
  j.delay = 1s;
  refused(j);
  j = after("b");
  j.at = s.wait((*s).clock());
  refused(j);
  j = {.kind = "kind", .delay = 1s, .at = s.wait((*s).clock())};
  refused(j);
  refused({.kind = "kind", .at = instant{-1us}});
  refused({.kind = "kind", .at = instant::max()});
}

void at_an_instant(world& w) {
  tool s{w};
  const instant now = s.wait((*s).clock());
  const auto last = s.put({.at = now + 90s});
  const auto first = s.put({.at = now + 80s});
  const auto past = s.put({.at = now - 1h});
  const auto run = s.claim_one().lease;
  same(run.id, past);
  same(s.complete(run), verdict::accepted);
  expect(s.look(last).run_at == now + 90s, "it is due at the instant");
  s.advance(1min);
  expect(s.wait((*s).clock()) == now + 1min, "the clock is that of the store");
  same(s.next_due(), duration{20s});
  s.advance(20s - 1us);
  same(s.claim(1).size(), 0u);
  s.advance(1us);
  same(s.claim_one().lease.id, first);
  s.advance(10s);
  same(s.claim_one().lease.id, last);
}

}  // namespace

void add_batch_cases(std::vector<test_case>& list) {
  list.insert(list.end(),
              {
                  {47, "a job begins once all jobs of a batch have ended, however they ended", begins_after_all},
                  {47, "a job of a batch that waits again has not ended", has_not_ended},
                  {47, "a batch may grow, and several jobs may wait for it", may_grow},
                  {47, "a job of a batch that is to run again counts again", runs_again},
                  {47, "a job that waits for a batch is cancelled, removed and expires as others", is_a_job},
                  {47, "the jobs of a batch are listed", lists_a_batch},
                  {47, "what can't be meant is refused", refuses_what_conflicts},
                  {48, "a job is due at an instant of the store's clock", at_an_instant},
              });
}

}  // namespace canigo::jobs::conformance
