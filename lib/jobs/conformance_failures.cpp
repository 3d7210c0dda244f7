// Conformance cases for job stores about failed runs, crashes and deadlines.
#include "conformance_cases.hpp"

#include <chrono>

namespace canigo::jobs::conformance {
namespace {

using namespace std::chrono_literals;

void fails_until_dead(world& w) {
  tool s{w};
  const auto id = s.put({.max_attempts = 2});
  auto run = s.claim_one();
  same(run.attempt, 1u);
  same(s.wait((*s).fail(run.lease, "first\nline", 7s)), verdict::accepted);
  same(s.state(id), job_state::waiting);
  same(s.claim(1).size(), 0u);
  same(s.next_due(), duration{7s});
  s.advance(7s);
  run = s.claim_one();
  same(run.attempt, 2u);
  same(s.wait((*s).fail(run.lease, std::string(5000, 'x'), 7s)), verdict::accepted);
  const auto info = s.look(id);
  same(info.state, job_state::dead);
  same(info.attempt, 2u);
  same(info.history.size(), 2u);
  same(info.history[0].text, "first line");
  same(info.history[0].attempt, 1u);
  same(info.history[0].what, event::type::failed);
  same(info.history[1].text, std::string(most_error_text, 'x'));
  expect(info.history[1].at - info.history[0].at == 7s, "the history tells when");
  s.advance(1h);
  same(s.claim(1).size(), 0u);

  const auto hopeless = s.put({});
  same(s.fail_run(s.claim_one().lease, duration::max()), verdict::accepted);
  same(s.state(hopeless), job_state::dead);
}

void history_has_a_bound(world& w) {
  tool s{w};
  const auto id = s.put({.max_attempts = 100});
  for (unsigned i = 1; i <= most_events + 5; ++i) {
    same(s.wait((*s).fail(s.claim_one().lease, std::to_string(i), 0s)), verdict::accepted);
  }
  const auto history = s.look(id).history;
  same(history.size(), most_events);
  same(history.front().text, "6");
  same(history.back().text, std::to_string(most_events + 5));
}

void crash_is_no_attempt(world& w) {
  tool s{w};
  const auto id = s.put({.max_attempts = 1});
  same(s.claim_one().attempt, 1u);
  s.advance(30s - 1us);
  same(s.claim(1).size(), 0u);
  same(s.look(id).crashes, 0u);
  s.advance(1us);
  same(s.claim(1).size(), 0u);
  auto info = s.look(id);
  same(info.state, job_state::waiting);
  same(info.crashes, 1u);
  same(info.attempt, 0u);
  same(info.history.size(), 1u);
  same(info.history[0].what, event::type::crashed);
  s.advance(1min);
  const auto run = s.claim_one();
  same(run.attempt, 1u);
  same(run.crashes, 1u);
  same(s.fail_run(run.lease), verdict::accepted);
  same(s.state(id), job_state::dead);
}

void poison_is_set_aside(world& w) {
  tool s{w};
  const auto id = s.put({});
  const auto crashes = store_policy{}.most_crashes;
  for (unsigned i = 1; i <= crashes; ++i) {
    s.fail_run(s.claim_one().lease);  // a normal failure does not change the number of crashes
    std::ignore = s.claim_one();
    s.advance(1h);
    same(s.claim(1).size(), 0u);
    same(s.look(id).crashes, i);
    s.advance(1h);
  }
  const auto info = s.look(id);
  same(info.state, job_state::dead);
  same(info.history.back().what, event::type::crashed);
  same(s.requeue(id).what, requeue_answer::type::requeued);
  same(s.claim_one().crashes, 0u);
}

void many_leases_run_out(world& w) {
  tool s{w};
  constexpr std::size_t crowd = 1000;
  std::vector<new_job> list(crowd, new_job{.kind = "kind"});
  s.wait((*s).put_all(list));
  same(s.claim(crowd).size(), crowd);
  s.advance(1h);
  const auto other = s.put({.queue = "other"});
  const auto first = s.ids(1, "other");
  expect(first.size() == 1 && first.front() == other, "leases that ran out do not hold a claim up");
  std::size_t back = 0;
  for (int i = 0; i < 100 && back < crowd; ++i) {
    s.advance(5min);
    back += s.claim(crowd).size();
  }
  expect(back >= crowd, "in the end all of them are back");
}

void deadlines(world& w) {
  tool s{w};
  const auto waits = s.put({.expires_in = 10s});
  const auto delayed = s.put({.queue = "nobody claims it", .delay = 1h, .expires_in = 11s});
  same(s.next_due("other"), duration{10s});
  s.advance(10s);
  same(s.claim(1, "other").size(), 0u);
  auto info = s.look(waits);
  same(info.state, job_state::dead);
  same(info.history.back().what, event::type::expired);
  same(s.state(delayed), job_state::waiting);
  s.advance(1s);
  same(s.claim(1).size(), 0u);
  same(s.state(delayed), job_state::dead);

  const auto runs = s.put({.expires_in = 10s});
  const auto run = s.claim_one();
  same(run.expires_in, duration{10s});
  s.advance(20s);
  expect(s.extend(run.lease, 30s).expires_in <= duration::zero(), "a job that runs is told of its deadline");
  same(s.state(runs), job_state::running);
  same(s.complete(run.lease), verdict::accepted);
  same(s.state(runs), job_state::done);

  const auto fails = s.put({.expires_in = 10s});
  const auto last = s.claim_one();
  s.advance(20s);
  same(s.fail_run(last.lease), verdict::accepted);
  same(s.claim(1).size(), 0u);
  same(s.state(fails), job_state::dead);
  same(s.requeue(fails).what, requeue_answer::type::requeued);
  same(s.claim_one().expires_in, duration::max());
}

void many_deadlines_pass(world& w) {
  tool s{w};
  constexpr std::size_t crowd = 250;
  const auto expired = s.wait((*s).put_all(std::vector<new_job>(crowd, {.kind = "kind", .expires_in = 1h})));
  const auto sound = s.put({});
  s.advance(1h);
  same(s.claim_one().lease.id, sound);
  for (std::size_t claims = 0; claims < 10; ++claims) s.reap();
  for (const put_answer& a : expired) {
    const job_info info = s.look(a.id);
    same(info.state, job_state::dead);
    same(info.attempt, 0);
    same(info.history.size(), 1u);
    same(info.history.back().what, event::type::expired);
    same(info.history.back().attempt, 0);
  }
}

}  // namespace

void add_failure_cases(std::vector<test_case>& list) {
  list.insert(list.end(),
              {
                  {19, "a job that fails waits for its retry, and is dead after the last one", fails_until_dead},
                  {19, "the history keeps the last entries", history_has_a_bound},
                  {20, "a lease that ran out counts as a crash and not as an attempt", crash_is_no_attempt},
                  {21, "a job that crashes too often is set aside", poison_is_set_aside},
                  {22, "many leases that ran out do not stop claims", many_leases_run_out},
                  {34, "a deadline ends a job that waits, and is told to one that runs", deadlines},
                  {34, "many deadlines that passed do not stop claims, and none is missed", many_deadlines_pass},
              });
}

}  // namespace canigo::jobs::conformance
