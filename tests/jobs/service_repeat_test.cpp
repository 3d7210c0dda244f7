#include "canigo/error.hpp"
#include "canigo/jobs/service.hpp"

#include "service_run.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <list>
#include <string>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// A process that repeats a job.
struct process {
  process(service_run& run, jobs::schedule when, std::string name) : service{run.io, run.store, one_queue(4)} {
    service.handle("clean up", [&run, name](jobs::job&) -> net::awaitable<void> {
      run.note("clean up");
      co_return;
    });
    service.repeat("clean up", std::move(when));
    service.start();
  }
  jobs::service service;
};

std::vector<jobs::job_info> waiting(service_run& run) {
  jobs::list_request r;
  r.state = jobs::job_state::waiting;
  return run.now(run.memory.list(r));
}

/// Lets virtual time reach the next whole ten minutes of the store's clock.
void align(service_run& run) {
  const auto now = run.now(run.memory.clock());
  run.time.run_for(jobs::schedule::every(10min).next_after(now) - now);
}

}  // namespace

TEST_CASE("a job runs at each time of its schedule, once for all processes", "[jobs]") {
  service_run run;
  align(run);
  const auto begun = run.now(run.memory.clock());
  std::list<process> all;
  for (const char* name : {"first", "second", "third"}) all.emplace_back(run, jobs::schedule::every(10min), name);
  run.time.run_for(30min + 1s);
  CHECK(run.log.size() == 3);
  jobs::list_request r;
  const auto list = run.now(run.memory.list(r));
  REQUIRE(list.size() == 4);
  for (std::size_t i = 0; i < list.size(); ++i) {
    CHECK(list[i].run_at == begun + 10min * static_cast<int>(i + 1));
    CHECK(list[i].unique_key.ends_with("Z clean up"));
  }
  CHECK(list[3].state == jobs::job_state::waiting);
  for (auto& p : all) p.service.request_stop();
  run.time.run_for(1h);
  CHECK(run.log.size() == 3);
}

TEST_CASE("of the times that were missed, one is made up for", "[jobs]") {
  service_run run;
  align(run);
  {
    process before{run, jobs::schedule::every(10min), "before"};
    run.time.run_for(5min);
    before.service.request_stop();
    run.time.run_for(1s);
  }
  CHECK(waiting(run).size() == 1);
  run.time.run_for(1h);
  CHECK(run.log.empty());
  process after{run, jobs::schedule::every(10min), "after"};
  run.time.run_for(1min);
  CHECK(run.log.size() == 1);
  CHECK(waiting(run).size() == 1);
  run.time.run_for(10min);
  CHECK(run.log.size() == 2);
  after.service.request_stop();
  run.time.run_for(1s);
}

TEST_CASE("the job of a time has the options and the key of its schedule", "[jobs]") {
  service_run run;
  align(run);
  jobs::service service{run.io, run.store, one_queue()};
  jobs::submit_options o{
      .queue = "reports", .priority = 3, .expires_in = 1h, .max_attempts = 2, .unique = "of the day"};
  service.repeat("report", jobs::schedule::cron("0 6 * * *"), "all", o);
  o.unique = "of the hour";
  service.repeat("report", jobs::schedule::cron("0 * * * *"), "some", o);
  service.start();
  run.time.run_for(1s);
  const auto list = waiting(run);
  REQUIRE(list.size() == 2);
  for (const auto& j : list) {
    const auto info = run.look(j.id);
    const bool is_daily = info.payload == "all";
    CHECK((info.queue == "reports" && info.priority == 3 && info.max_attempts == 2));
    const auto next =
        jobs::schedule::cron(is_daily ? "0 6 * * *" : "0 * * * *").next_after(run.now(run.memory.clock()));
    CHECK(info.run_at == next);
    CHECK(info.deadline == next + 1h);
    CHECK(info.unique_key.substr(0, 2) == "19");
    CHECK(info.unique_key.substr(20) == (is_daily ? " of the day" : " of the hour"));
  }
  service.request_stop();
  run.time.run_for(1s);
}

TEST_CASE("a schedule goes on after its store has failed", "[jobs]") {
  service_run run;
  align(run);
  run.store.fails["clock"] = make_error_code(jobs::error::locked);
  process p{run, jobs::schedule::every(10min), "p"};
  run.time.run_for(25min);
  CHECK(run.log.empty());
  CHECK(p.service.stats().store_failures > 3);
  run.store.fails.clear();
  run.time.run_for(10min + 1s);
  CHECK(run.log.size() == 1);
  p.service.request_stop();
  run.time.run_for(1s);
}

TEST_CASE("a schedule asks a store that fails less and less often", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.store_retry = {.first = 1s, .cap = 1h};
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 0s));
  service.repeat("kind", jobs::schedule::every(1h));
  run.store.fails["clock"] = make_error_code(jobs::error::io);
  service.start();
  run.time.run_for(100s);
  CHECK(run.store.calls["clock"] >= 4);
  CHECK(run.store.calls["clock"] <= 20);
  service.request_stop();
  run.time.run_for(1s);
}

TEST_CASE("a service refuses schedules outside their range", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  const auto refused = [&](std::string kind, const jobs::submit_options& o) {
    return refusal_of([&] { service.repeat(std::move(kind), jobs::schedule::every(1h), "", o); });
  };
  CHECK(refused("clean up", {.delay = 1s}) ==
        "service.repeat: delay is 1s; allowed: 0: the schedule has the times: invalid argument");
  CHECK(refused("clean up", {.batch = "b"}) == "service.repeat: batch is b; allowed: empty: invalid argument");
  CHECK(refused("clean up", {.after_batch = "b"}) ==
        "service.repeat: after_batch is b; allowed: empty: invalid argument");
  CHECK(refused("", {}).starts_with("new_job.kind"));
  CHECK(refused(std::string(201, 'k'), {}).starts_with("service.repeat: name"));
  CHECK(refused(std::string(201, 'k'), {.unique = "short"}).empty());
  CHECK(refused("clean up", {}).empty());
  CHECK(refused("clean up", {}) ==
        "service.repeat: name is clean up; allowed: one schedule of each name: invalid argument");
  service.start();
  CHECK(refused("other", {}) ==
        "service.repeat: name is other; allowed: schedules are named before start(): invalid argument");
  service.request_stop();
  run.time.run_for(1s);
}

TEST_CASE("a job runs once all of its batch have ended, in whatever process", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue(2)};
  jobs::service other{run.io, run.store, one_queue(2)};
  for (auto* s : {&service, &other}) {
    s->handle("part", noted_sleep(run, 10s));
    s->handle("rest", [&run](jobs::job&) -> net::awaitable<void> {
      run.note("rest");
      co_return;
    });
    s->start();
  }
  const jobs::submit_options part{.batch = "import"};
  for (int i = 0; i < 6; ++i) run.now(service.submit("part", std::to_string(i), part));
  const jobs::submit_options rest{.after_batch = "import"};
  const auto id = run.now(other.submit("rest", "", rest));
  run.time.run_for(19s);
  CHECK(run.log.size() == 4);
  CHECK(run.state(id) == jobs::job_state::waiting);
  run.time.run_for(2s);
  CHECK(run.log.size() == 7);
  CHECK(run.log.back() == "rest@20000");
  for (auto* s : {&service, &other}) s->request_stop();
  run.time.run_for(1s);
}
