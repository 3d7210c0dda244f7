#include "canigo/jobs/service_stats.hpp"

#include "canigo/jobs/service.hpp"

#include "service_run.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>

using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("a service counts its runs by how they ended", "[jobs]") {
  service_run run;
  auto o = one_queue(2);
  o.queues.push_back({.name = "other"});
  jobs::service service{run.io, run.store, o};
  service.handle("works", [](jobs::job&) -> net::awaitable<void> { co_return; });
  service.handle("breaks", [](jobs::job&) -> net::awaitable<void> {
    throw std::runtime_error{"broken"};
    co_return;
  });
  service.handle("is not std", [](jobs::job&) -> net::awaitable<void> {
    throw 7;
    co_return;
  });
  service.handle("sleeps", [](jobs::job& j) -> net::awaitable<void> {
    j.snooze(1h);
    co_return;
  });
  service.handle("hangs", [](jobs::job&) -> net::awaitable<void> { co_await sleep_for(10h); });
  run.put({.kind = "works"});
  run.put({.kind = "breaks", .max_attempts = 2});
  run.put({.kind = "is not std", .max_attempts = 1});
  run.put({.kind = "sleeps"});
  run.put({.queue = "other", .kind = "works", .delay = 10h});
  CHECK_FALSE(service.stats().queues.at(0).in_store);
  service.start();
  run.time.run_for(1min);
  const auto hangs = run.put({.kind = "hangs"});
  run.put({.kind = "hangs"});
  run.put({.kind = "hangs"});
  run.time.run_for(1min);
  service.stats();
  run.time.run_for(1s);

  const auto stats = service.stats();
  REQUIRE(stats.queues.size() == 2);
  const auto& q = stats.queues[0];
  CHECK(q.queue == "default");
  CHECK(q.running == 2);
  CHECK(q.claimed == 7);
  CHECK(q.done == 1);
  CHECK(q.failed == 1);
  CHECK(q.discarded == 2);
  CHECK(q.snoozed == 1);
  CHECK(q.given_back == 0);
  CHECK(q.lost == 0);
  REQUIRE(q.in_store);
  CHECK(q.in_store->of(jobs::job_state::waiting) == 2);
  CHECK(q.in_store->of(jobs::job_state::running) == 2);
  CHECK(q.in_store->of(jobs::job_state::dead) == 2);
  CHECK(q.in_store->oldest == 1min);
  REQUIRE(stats.queues[1].in_store);
  CHECK(stats.queues[1].in_store->of(jobs::job_state::waiting) == 1);
  CHECK(stats.store_failures == 0);

  run.now(run.memory.look(hangs.id));
  service.request_stop(stop_mode::cancel_all);
  run.time.run_for(1s);
  CHECK(service.stats().queues[0].given_back == 2);
  CHECK(service.stats().queues[0].running == 0);
}

TEST_CASE("a run that another process overtook is counted as lost", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.lease = 30s;
  jobs::service service{run.io, run.store, o};
  service.handle("hangs", [](jobs::job&) -> net::awaitable<void> { co_await sleep_for(10min); });
  run.put({.kind = "hangs"});
  run.store.fails["extend"] = make_error_code(jobs::error::io);
  service.start();
  run.time.run_for(40s);
  run.now(run.memory.claim({.queue = "nobody knows it"}));
  run.time.run_for(2min);
  const auto claimed = run.now(run.memory.claim({}));
  service.request_stop();
  run.time.run_for(20min);
  CHECK(service.stats().queues[0].lost == 1);
  CHECK(service.stats().store_failures > 3);
}

TEST_CASE("a count that is slow is not asked for again and again", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.start();
  const auto look_for = [&](duration span) {
    run.store.calls["count"] = 0;
    for (duration d = 0s; d < span; d += 100ms) {
      service.stats();
      run.time.run_for(100ms);
    }
    return run.store.calls["count"];
  };
  CHECK(look_for(10s) == 10);
  run.store.delays["count"] = 5s;
  CHECK(look_for(110s) == 2);
  SECTION("also if it fails") { run.store.fails["count"] = make_error_code(jobs::error::locked); }
  SECTION("also if there is no memory for it") { run.store.lacks_memory_once = "count"; }
  look_for(110s);
  run.store.delays["count"] = 0s;
  look_for(110s);
  CHECK(look_for(10s) == 10);
  service.request_stop();
  run.time.run_for(10s);
}

TEST_CASE("what is wrong with a store that works is told of, and its engine", "[jobs]") {
  struct poor_store final : store_around {
    using store_around::store_around;
    jobs::store_facts facts() const override {
      return {
          .engine = "Poor 1.0", .trouble = make_error_code(jobs::error::not_notified), .trouble_text = "it is deaf"};
    }
  };
  service_run run;
  poor_store poor{run.store};
  jobs::service service{run.io, poor, one_queue()};
  CHECK(service.stats().last_error == "it is deaf");
  CHECK(service.stats().last_error_code == jobs::error::not_notified);
  CHECK(service.stats().store_engine == "Poor 1.0");
  CHECK(jobs::service{run.io, run.store, one_queue()}.stats().store_engine.empty());
}

TEST_CASE("a store that fails leaves the counts of before", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  run.put({.queue = "default", .kind = "unknown", .delay = 1h});
  service.start();
  service.stats();
  run.time.run_for(1s);
  run.store.fails["count"] = make_error_code(jobs::error::io);
  run.time.run_for(1s);
  service.stats();
  run.time.run_for(1s);
  const auto stats = service.stats();
  REQUIRE(stats.queues[0].in_store);
  CHECK(stats.queues[0].in_store->of(jobs::job_state::waiting) == 1);
  CHECK(stats.store_failures == 1);
  service.request_stop();
  run.time.run_for(1s);
}
