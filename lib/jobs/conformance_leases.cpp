// Conformance cases for job stores about leases. A lease gives the right to end a run of a job.
#include "canigo/wait_group.hpp"

#include "conformance_cases.hpp"

#include <asio/co_spawn.hpp>
#include <asio/this_coro.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>
#include <string>
#include <vector>

namespace canigo::jobs::conformance {
namespace {

using namespace std::chrono_literals;

void completes_once(world& w) {
  tool s{w};
  const auto id = s.put({});
  const auto run = s.claim_one().lease;
  same(run.id, id);
  same(s.complete(run, "the result"), verdict::accepted);
  const auto before = s.look(id);
  same(before.state, job_state::done);
  same(before.result, "the result");
  expect(before.finished_at.has_value(), "a job that is done has an end");
  s.advance(1min);
  same(s.complete(run, "another"), verdict::superseded);
  expect(s.look(id) == before, "the second answer changed nothing");
}

void old_tokens_do_nothing(world& w) {
  tool first{w};
  tool second{w};
  const auto id = first.put({});
  const auto old = first.claim_one().lease;
  const auto ends_nothing = [&] {
    const auto before = first.look(id);
    same(first.complete(old), verdict::superseded);
    same(first.fail_run(old), verdict::superseded);
    same(first.snooze(old, 1s), verdict::superseded);
    same(first.give_back(old), verdict::superseded);
    same(first.extend(old, 1h).verdict, verdict::superseded);
    expect(first.look(id) == before, "an old token changes nothing");
  };
  first.advance(1h);
  second.reap();
  ends_nothing();
  first.advance(1h);
  const auto newer = second.claim_one().lease;
  ends_nothing();
  same(second.complete(newer), verdict::accepted);
  ends_nothing();
}

void late_holder_may_complete(world& w) {
  tool s{w};
  const auto id = s.put({});
  const auto run = s.claim_one().lease;
  s.advance(1h);
  same(s.complete(run), verdict::accepted);
  same(s.state(id), job_state::done);
  same(s.look(id).crashes, 0u);
}

void token_rises(world& w) {
  tool s{w};
  const auto id = s.put({});
  std::uint64_t last = 0;
  const auto next = [&](const place& at = place::current()) {
    const auto run = s.claim_one(at).lease;
    if (run.token <= last) fail("the token has not risen", at);
    last = run.token;
    return run;
  };
  s.fail_run(next());
  s.snooze(next(), 0s);
  s.give_back(next());
  s.complete(next());
  same(s.requeue(id).what, requeue_answer::type::requeued);
  next();
  s.advance(1h);
  s.reap();
  s.advance(1h);
  next();
}

void reap_leaves_others_alone(world& w) {
  tool s{w};
  const auto done = s.put({});
  s.complete(s.claim_one().lease);
  const auto anew = s.put({});
  s.give_back(s.claim_one().lease);
  const auto run = s.claim_one().lease;
  same(run.id, anew);
  s.extend(run, 2h);
  s.advance(1h);
  same(s.claim(10).size(), 0u);
  same(s.state(done), job_state::done);
  same(s.state(anew), job_state::running);
  same(s.look(anew).crashes, 0u);
}

void no_two_get_one(world& w) {
  tool first{w};
  tool second{w};
  std::vector<new_job> list(300, new_job{.kind = "kind"});
  same(first.wait((*first).put_all(list)).size(), 300u);
  std::set<job_id> seen;
  for (bool is_over = false; !is_over;) {
    is_over = true;
    for (tool* t : {&first, &second}) {
      for (const auto id : t->ids(7)) {
        is_over = false;
        expect(seen.insert(id).second, "no two claims bring one job");
      }
    }
  }
  same(seen.size(), 300u);
}

struct report {
  lease of;
  std::string result;
  verdict answer = verdict::superseded;
};

net::awaitable<void> complete_one(jobs::store& s, report& r) { r.answer = co_await s.complete(r.of, r.result); }

net::awaitable<void> complete_at_once(jobs::store& s, std::vector<report>& list) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  wait_group all{executor};
  std::exception_ptr failed;
  all.add(list.size());
  for (report& r : list) {
    net::co_spawn(executor, complete_one(s, r), [&](std::exception_ptr e) {
      if (e) failed = e;
      all.done();
    });
  }
  co_await all.wait();
  if (failed) std::rethrow_exception(failed);
}

void reports_come_together(world& w) {
  tool s{w};
  constexpr std::size_t crowd = 150;
  s.wait((*s).put_all(std::vector<new_job>(crowd, {.kind = "kind"})));
  std::vector<report> list;
  for (const claimed_job& c : s.claim(5)) {
    same(s.give_back(c.lease), verdict::accepted);
    list.push_back({c.lease, "of an old lease"});
  }
  const auto runs = s.claim(crowd);
  same(runs.size(), crowd);
  for (const claimed_job& c : runs) list.push_back({c.lease, "the first of " + text_of(c.lease.id)});
  for (std::size_t i = 0; i < 5; ++i) list.push_back({runs[i].lease, "the second"});
  s.wait(complete_at_once(*s, list));
  for (const report& r : list) {
    const bool is_first = r.result.starts_with("the first");
    same(r.answer, is_first ? verdict::accepted : verdict::superseded);
    if (is_first) same(s.look(r.of.id).result, r.result);
  }
}

void extends_for_ever(world& w) {
  tool s{w};
  const auto id = s.put({.expires_in = 10h});
  const auto run = s.claim_one().lease;
  for (int i = 0; i < 60; ++i) {
    s.advance(20s);
    const auto answer = s.extend(run, 30s);
    same(answer.verdict, verdict::accepted);
    same(answer.is_cancelled, false);
    same(answer.expires_in, duration{10h - (i + 1) * 20s});
    same(s.claim(1).size(), 0u);
  }
  same(s.cancel(id), cancel_answer::marked);
  same(s.extend(run, 30s).is_cancelled, true);
  same(s.look(id).crashes, 0u);
  same(s.wait((*s).extend(run, 30s, "half way")).verdict, verdict::accepted);
  same(s.look(id).result, "half way");
}

void gives_back(world& w) {
  tool s{w};
  const auto id = s.put({.delay = 5s});
  s.put({.delay = 6s});
  s.advance(10s);
  const auto before = s.look(id);
  const auto run = s.claim_one();
  same(run.lease.id, id);
  same(run.attempt, 1u);
  same(s.give_back(run.lease), verdict::accepted);
  const auto after = s.look(id);
  same(after.attempt, 0u);
  expect(after.run_at == before.run_at, "it was due when it was before");
  same(after.state, job_state::waiting);
  same(s.claim_one().lease.id, id);
}

void snoozes(world& w) {
  tool s{w};
  const auto id = s.put({.max_attempts = 1});
  for (unsigned i = 1; i <= 3; ++i) {
    const auto run = s.claim_one();
    same(run.attempt, 1u);
    same(run.snoozes, i - 1);
    expect(s.error_of((*s).snooze(run.lease, -1ns)) == std::errc::invalid_argument, "a negative time is refused");
    same(s.snooze(run.lease, 1min), verdict::accepted);
    same(s.look(id).attempt, 0u);
    same(s.claim(1).size(), 0u);
    same(s.next_due(), duration{1min});
    s.advance(1min);
  }
  s.fail_run(s.claim_one().lease);
  same(s.state(id), job_state::dead);
}

}  // namespace

void add_lease_cases(std::vector<test_case>& list) {
  list.insert(list.end(),
              {
                  {3, "a run is completed once", completes_once},
                  {4, "an old token has no effect and says so", old_tokens_do_nothing},
                  {4, "of many reports that come together each has its own answer", reports_come_together},
                  {5, "a holder whose lease ran out may complete if nobody came after", late_holder_may_complete},
                  {6, "the token rises with every claim", token_rises},
                  {7, "a lease that ran out is no matter to jobs that ended or run anew", reap_leaves_others_alone},
                  {8, "no two claims bring one job", no_two_get_one},
                  {24, "a lease that is renewed does not run out", extends_for_ever},
                  {26, "a job that is given back is as before the claim", gives_back},
                  {27, "a snooze uses up no attempt", snoozes},
              });
}

}  // namespace canigo::jobs::conformance
