#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"
#include "canigo/jobs/service.hpp"
#include "canigo/timeout.hpp"

#include "service_run.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// What a service does while its store fails, or another process has its jobs.

using namespace canigo;
using namespace std::chrono_literals;
using jobs::job_state;

TEST_CASE("a service asks a store that fails less and less often, and goes on when it is back", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.store_retry = {.first = 1s, .factor = 2, .cap = 1min, .jitter = jitter::none};
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 0s));
  run.put({.kind = "kind", .payload = "it"});
  for (const char* step : {"claim", "next_due", "changed"}) run.store.fails[step] = make_error_code(jobs::error::io);
  service.start();
  run.time.run_for(1h);
  CHECK(run.store.calls["next_due"] == 1 + 6 + 58);  // after 1, 2, 4 … 32 s, then every minute
  CHECK(run.store.calls["changed"] == 1 + 6 + 58);
  run.store.fails.erase("next_due");
  run.time.run_for(10min);
  CHECK(run.store.calls["claim"] == 10);
  CHECK(run.log.empty());
  run.store.fails.clear();
  run.time.run_for(1min);
  CHECK(run.names() == "it is over");
}

TEST_CASE("a service asks a store that has news after a second, though it would wait for longer", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.store_retry = backoff::constant(1h);
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 0s));
  const auto id = run.put({.kind = "kind", .payload = "it"}).id;
  const std::string step = GENERATE("claim", "complete");
  run.store.fails[step] = make_error_code(jobs::error::cannot_open);
  service.start();
  run.time.run_for(10min);
  CHECK(run.store.calls[step] <= 2);  // the first look for news is over after the first failure
  run.store.fails.clear();
  run.now(run.memory.cancel(run.put({.kind = "other"}).id));
  run.time.run_for(1s);
  CHECK(run.state(id) == job_state::done);

  // News that come all the time do not hurry it more than that.
  run.store.fails["claim"] = make_error_code(jobs::error::cannot_open);
  run.store.calls.clear();
  run.put({.kind = "kind", .payload = "next"});
  for (int i = 0; i < 100; ++i) {
    run.put({.kind = "other", .delay = 1h});
    run.time.run_for(100ms);
  }
  CHECK(run.store.calls["claim"] >= 9);
  CHECK(run.store.calls["claim"] <= 11);
}

TEST_CASE("a store that can't be opened ends a service at once, unless it is to wait", "[jobs]") {
  const auto code = make_error_code(GENERATE(jobs::error::cannot_open, jobs::error::newer_schema, jobs::error::failed,
                                             jobs::error::corrupt, jobs::error::read_only));
  const bool waits = GENERATE(false, true);
  const bool has_queues = GENERATE(false, true);
  CAPTURE(code, waits, has_queues);
  service_run run;
  auto o = has_queues ? one_queue() : jobs::service_options{};
  o.waits_for_store = waits;
  jobs::service service{run.io, run.store, o};
  for (const char* step : {"claim", "next_due", "clock"}) run.store.fails[step] = code;
  std::string cause = "none";
  run.go([&]() -> net::awaitable<void> {
    try {
      co_await service.closed();
    } catch (const std::system_error& e) {
      CHECK(e.code() == code);
      cause = e.what();
    }
  });
  service.start();
  run.time.run_for(1ms);
  CHECK((cause == "none") == waits);
  run.time.run_for(1h);
  CHECK((cause == "none") == waits);
  CHECK(service.stats().last_error_code == code);
  run.store.fails.clear();
  run.time.run_for(1min);
  CHECK(service.stats().last_error.empty() == waits);
  service.request_stop();
  run.time.run_for(1s);
}

TEST_CASE("a store that others keep locked at the start is waited for", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", noted_sleep(run, 0s));
  run.put({.kind = "kind", .payload = "it"});
  for (const char* step : {"claim", "next_due", "clock"}) run.store.fails[step] = make_error_code(jobs::error::locked);
  service.start();
  run.time.run_for(1h);
  run.store.fails.clear();
  run.time.run_for(1min);
  CHECK(run.names() == "it is over");
  CHECK(service.stats().last_error.empty());
}

TEST_CASE("a store that lacks memory once costs nothing but time", "[jobs]") {
  const std::string step = GENERATE("claim", "complete", "extend", "next_due", "trim default", "changed");
  INFO(step);
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("long", noted_sleep(run, 10min));
  run.store.lacks_memory_once = step;
  const auto first = run.put({.kind = "long", .payload = "first"}).id;
  service.start();
  run.time.run_for(1h);
  CHECK(run.store.lacks_memory_once.empty());
  CHECK(run.names() == "first is over");
  CHECK(run.look(first).result == "by token 1");
  CHECK(run.look(first).crashes == 0);
  const int renewals = run.store.calls["extend"];
  CHECK(renewals >= 30);  // more than one in each lease
  const auto second = run.put({.kind = "long", .payload = "second"}).id;
  run.time.run_for(1min);
  CHECK(run.state(second) == job_state::running);
  run.now(run.memory.cancel(second));
  run.time.run_for(5s);
  CHECK(run.state(second) == job_state::cancelled);
  bool has_stopped = false;
  run.go([&]() -> net::awaitable<void> {
    co_await service.stop(stop_mode::finish_running);
    has_stopped = true;
  });
  run.time.run_for(1min);
  CHECK(has_stopped);
}

TEST_CASE("a service stops with the store's error after as many failures in a row as it may", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.store_retry = backoff::constant(1s);
  o.most_store_failures = 3;
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 0s));
  service.start();
  run.go([&]() -> net::awaitable<void> {
    CHECK(co_await outcome_of(service.closed()) == jobs::error::corrupt);
    run.note("stopped");
    co_await service.stop();
  });
  run.store.fails["claim"] = make_error_code(jobs::error::corrupt);
  run.put({.kind = "kind", .payload = "a"});
  run.time.run_for(1500ms);  // two failures
  run.store.fails.clear();
  run.time.run_for(5s);
  run.store.fails["claim"] = make_error_code(jobs::error::corrupt);
  run.put({.kind = "kind", .payload = "b"});
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"a is over@2000", "stopped@8500"});
}

TEST_CASE("failures of the store between which a job came are not in a row", "[jobs]") {
  service_run run;
  auto o = one_queue(2);
  o.store_retry = backoff::constant(1s);
  o.most_store_failures = 2;
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 1h));
  run.put({.kind = "kind", .payload = "it"});
  run.store.fails_at["next_due"] = {1, 3};  // the second one tells of the job, which leaves a place
  service.start();
  run.time.run_for(10s);
  CHECK(run.store.calls["next_due"] >= 4);
  CHECK(service.stats().store_failures == 2);
  CHECK(service.stats().queues[0].running == 1);
  run.put({.kind = "kind", .payload = "another"});
  run.time.run_for(1s);
  CHECK(service.stats().queues[0].running == 2);
}

TEST_CASE("a service stops with its store", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", noted_sleep(run, 10s));
  run.put({.kind = "kind", .payload = "it"});
  service.start();
  run.time.run_for(1s);
  run.memory.stop();
  run.go([&]() -> net::awaitable<void> {
    CHECK(co_await outcome_of(service.closed()) == errc::stopped);
    run.note("stopped");
  });
  run.time.run_for(1h);
  CHECK(run.log == log_lines{"it is over@10000", "stopped@10000"});
}

TEST_CASE("a result that can't be written is kept until it can", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.store_retry = backoff::constant(1s);
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 0s));
  run.store.fails["complete"] = make_error_code(jobs::error::full);
  const auto id = run.put({.kind = "kind", .payload = "it"}).id;
  service.start();
  run.time.run_for(10min);
  CHECK(run.state(id) == job_state::running);  // its lease is renewed
  CHECK(service.pool("default").stats().working == 0);
  CHECK(run.store.calls["complete"] > 500);
  CHECK(service.stats().store_failures == static_cast<std::uint64_t>(run.store.calls["complete"]));
  run.store.fails.clear();
  run.time.run_for(1s);
  CHECK(run.look(id).result == "by token 1");
  CHECK(run.log == log_lines{"it is over@0"});
}

TEST_CASE("a result that is on its way holds no place", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", noted_sleep(run, 1s));
  run.store.delays["complete"] = 10s;
  for (const char* name : {"first", "second"}) run.put({.kind = "kind", .payload = name});
  service.start();
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"first is over@1000", "second is over@2000"});
  CHECK(service.stats().queues[0].done == 2);
}

TEST_CASE("a store that takes no results is asked for no more than twice as many jobs as run at once", "[jobs]") {
  service_run run;
  auto o = one_queue(2);
  o.store_retry = backoff::constant(1s);
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 1s));
  run.store.fails["complete"] = make_error_code(jobs::error::full);
  for (int i = 0; i < 10; ++i) run.put({.kind = "kind", .payload = "it"});
  service.start();
  run.time.run_for(10min);
  CHECK(run.log.size() == 4);
  CHECK(service.stats().queues[0].running == 4);
  run.store.fails.clear();
  run.time.run_for(1min);
  CHECK(run.log.size() == 10);
}

TEST_CASE("a result that no store takes ends its job", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", noted_sleep(run, 0s));
  run.store.fails["complete"] = make_error_code(errc::too_large);
  const auto id = run.put({.kind = "kind", .payload = "it"}).id;
  service.start();
  run.time.run_for(1min);
  CHECK(run.state(id) == job_state::dead);
  CHECK(run.names() == "it is over");
}

TEST_CASE("a stop waits for a store that fails until the leases are over", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.store_retry = backoff::constant(GENERATE(1s, 7s, 1h));  // the leases end in the middle of a pause, too
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 1s));
  const auto id = run.put({.kind = "kind", .payload = "it"}).id;
  service.start();
  for (const char* step : {"complete", "extend"}) run.store.fails[step] = make_error_code(jobs::error::io);
  run.go([&]() -> net::awaitable<void> {
    co_await sleep_for(5s);
    co_await service.stop();
    run.note("stopped");
  });
  run.time.run_for(1h);
  CHECK(run.log == log_lines{"it is over@1000", "stopped@30000"});
  jobs::claim_request r;
  CHECK(run.now(run.memory.claim(r)).empty());
  CHECK(run.state(id) == job_state::waiting);
}

TEST_CASE("a stop waits for a store that takes no result until the last renewal of the lease is over", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.store_retry = backoff::constant(1s);
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 1s));
  run.put({.kind = "kind", .payload = "it"});
  service.start();
  run.store.fails["complete"] = make_error_code(jobs::error::io);
  run.time.run_for(25s);
  run.store.fails["extend"] = make_error_code(jobs::error::io);
  run.go([&]() -> net::awaitable<void> {
    co_await service.stop();
    run.note("stopped");
  });
  run.time.run_for(1h);
  CHECK(run.log == log_lines{"it is over@1000", "stopped@50000"});
}

TEST_CASE("a job may run for longer than its lease", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  jobs::service other{run.io, run.memory, one_queue()};
  for (auto* s : {&service, &other}) s->handle("long", noted_sleep(run, 10h));
  const auto id = run.put({.kind = "long", .payload = "it"}).id;
  service.start();
  run.time.run_for(1s);
  other.start();
  run.time.run_for(20h);
  CHECK(run.names() == "it is over");
  CHECK(run.look(id).result == "by token 1");
  CHECK(run.look(id).crashes == 0);
}

TEST_CASE("a handler whose job another process has is cancelled, and its result is not stored", "[jobs]") {
  const bool is_deaf = GENERATE(false, true);
  service_run run{{.after_crash = backoff::constant(1s)}};
  jobs::service cut_off{run.io, run.store, one_queue()};
  jobs::service other{run.io, run.memory, one_queue()};
  cut_off.handle("long", [&](jobs::job& j) -> net::awaitable<std::string> {
    const auto ec = co_await outcome_of(sleep_for(5min));
    run.note(ec ? "cancelled" : "over");
    CHECK(j.stop_requested() == (ec == net::error::operation_aborted));
    if (ec && !is_deaf) throw std::system_error{ec};
    co_return "by token " + std::to_string(j.lease().token);
  });
  other.handle("long", noted_sleep(run, 10min));
  const auto id = run.put({.kind = "long", .payload = "it"}).id;
  cut_off.start();
  run.time.run_for(1s);
  run.store.fails["extend"] = make_error_code(jobs::error::io);
  other.start();
  run.time.run_for(1min);  // the other one has it now
  CHECK(run.look(id).token == 2);
  CHECK(run.log.empty());
  run.store.fails.clear();
  run.time.run_for(5s);
  CHECK(run.names() == "cancelled");
  CHECK(cut_off.stats().queues[0].lost == 1);
  run.time.run_for(1h);
  CHECK(run.names() == "cancelledit is over");
  CHECK(run.look(id).result == "by token 2");
  CHECK(run.store.verdicts == std::vector<jobs::verdict>(is_deaf ? 1 : 0, jobs::verdict::superseded));
  CHECK(run.look(id).history.size() == 1);
  CHECK(run.look(id).history.front().what == jobs::event::type::crashed);
}

TEST_CASE("a job that nobody else was given may still end after its lease", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("long", noted_sleep(run, 10min));
  const auto id = run.put({.kind = "long", .payload = "it"}).id;
  service.start();
  run.store.fails["extend"] = make_error_code(jobs::error::io);
  run.time.run_for(1h);
  CHECK(run.look(id).result == "by token 1");
}

TEST_CASE("a cancellation reaches a job that waits or runs, in any process", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.queues[0].concurrency = 3;
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 1h));
  jobs::service elsewhere{run.io, run.memory, {}};
  std::vector<jobs::job_id> ids;
  for (const char* name : {"a", "b", "c", "d"}) ids.push_back(run.put({.kind = "kind", .payload = name}).id);
  service.start();
  run.time.run_for(10s);
  for (const auto id : ids) run.note_result(elsewhere, id);
  using answer = jobs::cancel_answer;
  SECTION("here at once") {
    CHECK(run.now(service.cancel(ids[3])) == answer::cancelled);
    CHECK(run.now(service.cancel(ids[1])) == answer::marked);
    run.time.poll();
    CHECK(run.log == log_lines{"job 4 of kind kind: the job was cancelled@10000", "b is cancelled@10000",
                               "job 2 of kind kind: the job was cancelled@10000"});
    CHECK(run.now(service.cancel(ids[1])) == answer::ended);
    CHECK(run.now(service.cancel(99)) == answer::unknown);
  }
  SECTION("elsewhere within a second") {
    CHECK(run.now(elsewhere.cancel(ids[0])) == answer::marked);
    run.time.run_for(1s);
    CHECK(run.log.front().starts_with("a is cancelled"));
    CHECK(run.now(elsewhere.cancel(ids[1])) == answer::marked);
    CHECK(run.now(elsewhere.cancel(ids[2])) == answer::marked);
    run.time.run_for(2s);
    CHECK(run.state(ids[1]) == job_state::cancelled);
    CHECK(run.state(ids[2]) == job_state::cancelled);
  }
}

TEST_CASE("a cancellation of which no message comes is found with the next renewal", "[jobs]") {
  service_run run;
  run.store.tells_changes = false;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", noted_sleep(run, 1h));
  const auto id = run.put({.kind = "kind", .payload = "it"}).id;
  service.start();
  run.time.run_for(11s);
  CHECK(run.now(run.memory.cancel(id)) == jobs::cancel_answer::marked);
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"it is cancelled@20000"});
  CHECK(run.state(id) == job_state::cancelled);
}

TEST_CASE("a store that has news all the time is asked for cancellations once a second", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue(2)};
  service.handle("kind", noted_sleep(run, 1h));
  std::vector<jobs::job_id> ids;
  for (const char* name : {"a", "b"}) ids.push_back(run.put({.kind = "kind", .payload = name}).id);
  service.start();
  run.time.run_for(2s);
  run.store.calls.clear();
  for (int i = 0; i < 100; ++i) {
    run.put({.kind = "other", .delay = 1h});
    run.time.run_for(100ms);
  }
  CHECK(run.store.calls["extend"] >= 2 * 10);
  CHECK(run.store.calls["extend"] <= 2 * 11);
  run.now(run.memory.cancel(ids[0]));
  run.time.run_for(1s);
  CHECK(run.names() == "a is cancelled");
}

TEST_CASE("a renewal that is on its way is not asked for again", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", noted_sleep(run, 1h));
  run.put({.kind = "kind", .payload = "it"});
  service.start();
  run.time.run_for(2s);
  run.store.calls.clear();
  run.store.delays["extend"] = 4s;
  for (int i = 0; i < 100; ++i) {
    run.put({.kind = "other", .delay = 1h});
    run.time.run_for(100ms);
  }
  CHECK(run.store.calls["extend"] >= 2);
  CHECK(run.store.calls["extend"] <= 3);
}

TEST_CASE("a job that is cancelled and succeeds all the same is done", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("deaf", [&](jobs::job& j) -> net::awaitable<std::string> {
    co_await outcome_of(sleep_for(1h));
    CHECK(j.stop_requested());
    co_return "all the same";
  });
  const auto id = run.put({.kind = "deaf"}).id;
  service.start();
  run.time.run_for(1s);
  run.now(service.cancel(id));
  run.time.run_for(1s);
  CHECK(run.look(id).result == "all the same");
}

TEST_CASE("an idle service asks its store nothing", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", noted_sleep(run, 0s));
  service.start();
  run.time.run_for(1s);
  run.store.calls.clear();
  run.time.run_for(1000h);
  CHECK(run.store.calls.empty());
}
