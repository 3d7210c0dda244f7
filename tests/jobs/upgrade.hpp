#pragma once

#include "canigo/jobs/store.hpp"

#include "io_world.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Checks of the stores in version_1.hpp, which the library made with the first version of the tables. They contain a
// job in each state. The jobs in both databases have the same numbers.

/// The age of these stores, so that a clock which starts with a test is later than everything in them.
inline constexpr canigo::duration after_version_1 = std::chrono::hours{24} * 1200;

inline const std::string bytes_of_version_1{"a\0b\xff\n", 5};

struct old_job {
  std::string_view kind;
  canigo::jobs::job_state state;
  std::uint32_t attempt = 0;
  std::uint32_t crashes = 0;
  std::uint32_t snoozes = 0;
  std::vector<std::string> events = {};
  std::string payload = {};
  std::string key = {};
  std::string result = {};
};

/// The jobs by number, from 1 on. A job without a kind was removed.
inline const std::vector<old_job>& jobs_of_version_1() {
  using enum canigo::jobs::job_state;
  static const std::vector<old_job> list = {
      {.kind = "plain", .state = waiting, .payload = bytes_of_version_1},
      {.kind = "urgent_later", .state = waiting, .payload = "later"},
      {.kind = "long", .state = waiting, .payload = std::string(5000, 'x')},
      {.kind = "unique", .state = waiting, .key = bytes_of_version_1},
      {.kind = "held", .state = waiting, .payload = "held"},
      {.kind = "answers",
       .state = done,
       .attempt = 1,
       .payload = "question",
       .key = "for a time",
       .result = bytes_of_version_1},
      {.kind = "fails",
       .state = dead,
       .attempt = 2,
       .events = {"failed first: no route", "failed second: \xc3\xa4 line break"}},
      {.kind = "crashes", .state = dead, .crashes = 2, .events = {"crashed ", "crashed "}},
      {.kind = "too_late", .state = dead, .events = {"expired "}},
      {.kind = "unwanted", .state = cancelled},
      {.kind = "sleeper", .state = waiting, .attempt = 1, .snoozes = 1, .events = {"failed once"}},
      {.kind = "", .state = done},
      {.kind = "steady", .state = running, .attempt = 1, .payload = "running", .result = "half"},
      {.kind = "doomed", .state = running, .attempt = 1},
      {.kind = "stale", .state = running, .attempt = 1, .payload = "stale"},
      {.kind = "", .state = done}};
  return list;
}

/// Checks that each job still has all its properties.
inline void check_old_jobs(io_world& w, canigo::jobs::store& s) {
  canigo::jobs::job_id id = 0;
  for (const old_job& expected : jobs_of_version_1()) {
    CAPTURE(++id, expected.kind);
    const auto j = w.wait(s.look(id));
    REQUIRE(j.has_value() == !expected.kind.empty());
    if (!j) continue;
    CHECK(j->kind == expected.kind);
    CHECK(j->state == expected.state);
    CHECK(j->attempt == expected.attempt);
    CHECK(j->crashes == expected.crashes);
    CHECK(j->snoozes == expected.snoozes);
    CHECK(j->payload == expected.payload);
    CHECK(j->unique_key == expected.key);
    CHECK(j->result == expected.result);
    CHECK(j->batch + j->after_batch == "");
    std::vector<std::string> events;
    for (const auto& e : j->history) events.push_back(std::string{to_string(e.what)} + " " + e.text);
    CHECK(events == expected.events);
  }
}

inline std::vector<canigo::jobs::claimed_job> claim_all(io_world& w, canigo::jobs::store& s, const std::string& queue) {
  const canigo::jobs::claim_request r{.queue = queue, .limit = 9};
  return w.wait(s.claim(r));
}

/// Checks that each old job continues from its state.
inline void check_old_jobs_go_on(io_world& w, canigo::jobs::store& s) {
  using canigo::jobs::claimed_job, canigo::jobs::job_id, canigo::jobs::job_state, canigo::jobs::lease;
  using canigo::jobs::new_job, canigo::jobs::requeue_answer, canigo::jobs::store, canigo::jobs::verdict;
  using std::chrono::hours;
  const auto lease_of = [&](job_id id) { return lease{id, w.wait(s.look(id)).value().token}; };
  const auto ids = [](const std::vector<claimed_job>& list) {
    std::vector<job_id> numbers;
    for (const auto& j : list) numbers.push_back(j.lease.id);
    return numbers;
  };

  // The process that holds the lease still exists.
  CHECK(w.wait(s.complete({13, 1}, "")) == verdict::superseded);
  CHECK(w.wait(s.complete(lease_of(13), "whole")) == verdict::accepted);
  CHECK(w.wait(s.look(13))->result == "whole");
  CHECK(w.wait(s.extend(lease_of(14), hours{1}, std::nullopt)).is_cancelled);
  CHECK(w.wait(s.fail(lease_of(14), "stopped", canigo::duration::zero())) == verdict::accepted);
  CHECK(w.wait(s.look(14))->state == job_state::cancelled);

  // The process that holds the lease has ended.
  const auto stale = lease_of(15);
  CHECK(claim_all(w, s, "none").empty());
  CHECK(w.wait(s.look(15))->crashes == 1);
  w.advance(hours{24});
  const auto again = claim_all(w, s, "running");
  REQUIRE(ids(again) == std::vector<job_id>{15});
  CHECK(again[0].lease.token > stale.token);
  CHECK(again[0].attempt == 1);
  CHECK(w.wait(s.complete(stale, "")) == verdict::superseded);

  const auto waiting = claim_all(w, s, "waiting");
  REQUIRE(ids(waiting) == std::vector<job_id>{1, 4, 3});
  CHECK(waiting[0].payload == bytes_of_version_1);
  CHECK(waiting[2].payload == std::string(5000, 'x'));
  CHECK(waiting[2].max_attempts == 7);
  CHECK(claim_all(w, s, "paused").empty());
  w.wait([](store& to) -> canigo::net::awaitable<bool> {
    co_await to.resume("paused");
    co_return true;
  }(s));
  CHECK(ids(claim_all(w, s, "paused")) == std::vector<job_id>{5});
  CHECK(claim_all(w, s, "snoozed").at(0).attempt == 2);

  CHECK(w.wait(s.requeue(7)).what == requeue_answer::type::requeued);
  CHECK(claim_all(w, s, "dead").at(0).attempt == 3);
  CHECK(w.wait(s.requeue(10)).what == requeue_answer::type::requeued);
  CHECK(ids(claim_all(w, s, "cancelled")) == std::vector<job_id>{10});

  // A unique key stays reserved for its time, and no number is used twice.
  const new_job same{.kind = "same", .unique_key = "for a time"};
  CHECK(w.wait(s.put(same)).id == 6);
  const new_job first{.queue = "new", .kind = "first", .batch = "new"};
  const job_id first_id = w.wait(s.put(first)).id;
  CHECK(first_id > 16);
  const new_job last{.queue = "new", .kind = "last", .after_batch = "new"};
  const job_id last_id = w.wait(s.put(last)).id;
  const auto running = claim_all(w, s, "new");
  REQUIRE(ids(running) == std::vector<job_id>{first_id});
  CHECK(w.wait(s.complete(running[0].lease, "")) == verdict::accepted);
  CHECK(ids(claim_all(w, s, "new")) == std::vector<job_id>{last_id});
}
