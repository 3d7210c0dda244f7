// Conformance test cases: which job is claimed next, and when that job can be claimed.
#include "conformance_cases.hpp"

#include <chrono>

namespace canigo::jobs::conformance {
namespace {

using namespace std::chrono_literals;
using id_list = std::vector<job_id>;

void by_priority_then_time(world& w) {
  tool s{w};
  const auto last = s.put({.priority = 15});
  const auto third = s.put({.priority = 1, .delay = 2s});
  const auto second = s.put({.priority = 1, .delay = 1s});
  const auto fourth = s.put({.priority = 1, .delay = 2s});
  const auto first = s.put({.priority = 0, .delay = 3s});
  s.advance(5s);
  expect(s.ids(2) == id_list{first, second}, "the first claim brings the first two");
  expect(s.ids(9) == id_list{third, fourth, last}, "the next claim brings the rest, in order");
}

void not_before_its_time(world& w) {
  tool s{w};
  const auto id = s.put({.delay = 90s});
  same(s.claim(1).size(), 0u);
  s.advance(90s - 1us);
  same(s.claim(1).size(), 0u);
  same(s.next_due(), duration{1us});
  s.advance(1us);
  expect(s.ids(1) == id_list{id}, "it can be claimed at its instant");
}

void takes_its_place_when_due(world& w) {
  tool s{w};
  const auto urgent = s.put({.priority = 0, .delay = 1h});
  const auto worse = s.put({.priority = 3});
  s.put({.priority = 3});
  expect(s.ids(1) == id_list{worse}, "a job that is not due holds nobody up");
  s.advance(1h);
  expect(s.ids(1) == id_list{urgent}, "once due it goes before worse ones that waited longer");
}

void keeps_its_priority(world& w) {
  tool s{w};
  const auto id = s.put({.priority = 2});
  s.put({.priority = 3});
  const auto is_first = [&](const place& at = place::current()) {
    const auto run = s.claim_one(at);
    same(run.lease.id, id, at);
    same(run.priority, 2, at);
    return run.lease;
  };
  s.fail_run(is_first());
  s.snooze(is_first(), 0s);
  s.give_back(is_first());
  is_first();
  s.advance(1h);
  expect(s.ids(1).front() != id, "a job that crashed waits for a while");
  s.advance(1h);
  is_first();
}

void tells_what_is_due(world& w) {
  tool s{w};
  same(s.next_due(), duration::max());
  same(s.next_due("nobody knows it"), duration::max());
  s.put({.priority = 9, .delay = 40s});
  same(s.next_due(), duration{40s});
  s.put({.priority = 0, .delay = 50s});
  same(s.next_due(), duration{40s});
  s.put({.queue = "other", .delay = 1s});
  same(s.next_due(), duration{40s});
  s.wait((*s).pause("default"));
  same(s.next_due(), duration::max());
  s.wait((*s).resume("default"));
  s.advance(41s);
  same(s.next_due(), duration::zero());
  same(s.claim(9).size(), 1u);
  same(s.next_due(), duration{9s});
}

void limit_and_queue(world& w) {
  tool s{w};
  same(s.claim(1).size(), 0u);
  same(s.claim(1, "nobody knows it").size(), 0u);
  for (int i = 0; i < 5; ++i) s.put({.queue = "a"});
  const auto b = s.put({.queue = "b"});
  same(s.claim(3, "a").size(), 3u);
  expect(s.ids(9, "b") == id_list{b}, "a claim brings jobs of its queue only");
  same(s.claim(9, "a").size(), 2u);
  same(s.claim(9, "a").size(), 0u);
  expect(s.error_of((*s).claim({.limit = 0})) == std::errc::invalid_argument, "a limit of 0 is refused");
}

void clock_jumps(world& w) {
  tool s{w};
  const auto id = s.put({});
  const auto old = s.claim_one().lease;
  s.advance(-1h);
  same(s.claim(1).size(), 0u);
  same(s.extend(old, 30s).verdict, verdict::accepted);
  s.advance(2h);
  s.reap();
  s.advance(1h);
  const auto newer = s.claim_one().lease;
  same(newer.id, id);
  expect(newer.token > old.token, "no token is given twice");
  same(s.complete(old), verdict::superseded);
  same(s.complete(newer), verdict::accepted);
}

}  // namespace

void add_order_cases(std::vector<test_case>& list) {
  list.insert(list.end(),
              {
                  {11, "a claim goes by priority, due time, number", by_priority_then_time},
                  {12, "a delayed job can be claimed at its instant, and not before", not_before_its_time},
                  {13, "a delayed job takes its place by priority when it is due", takes_its_place_when_due},
                  {14, "a job keeps its priority over retries, snoozes and crashes", keeps_its_priority},
                  {16, "next_due is the first instant over all priorities", tells_what_is_due},
                  {17, "a claim obeys its limit and queue", limit_and_queue},
                  {18, "a clock that jumps loses no job and repeats no token", clock_jumps},
              });
}

}  // namespace canigo::jobs::conformance
