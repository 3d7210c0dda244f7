#include "canigo/jobs/service.hpp"

#include "canigo/jobs/error.hpp"
#include "canigo/jobs/job.hpp"
#include "canigo/timeout.hpp"

#include "service_run.hpp"
#include "support/catch.hpp"
#include "support/timeout_rule.hpp"

#include <asio/cancellation_signal.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;
using jobs::job_state;

TEST_CASE("a job runs, and any caller may wait for its result", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("echo", [](jobs::job& j) -> net::awaitable<std::string> {
    co_await sleep_for(10ms);
    co_return j.kind() + " of " + j.queue() + ": " + j.payload();
  });
  service.handle("nothing", [&](jobs::job&) -> net::awaitable<void> { co_return; });
  service.start();
  service.start();
  const auto id = run.now(service.submit("echo", "it"));
  run.note_result(service, id);
  run.note_result(service, id);
  run.time.run_for(1s);
  run.note_result(service, id);
  run.note_result(service, 77);
  run.go([&]() -> net::awaitable<void> {
    jobs::submit_options o;
    run.note("nothing:" + co_await service.submit_and_wait("nothing", "", o));
  });
  run.time.run_for(1s);
  CHECK(run.log == log_lines{"echo of default: it@10", "echo of default: it@10", "echo of default: it@1000",
                             "job 77: there is no such job@1000", "nothing:@1000"});
}

TEST_CASE("a job that fails runs again after the backoff, until its attempts are used up", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("fails", [&](jobs::job& j) -> net::awaitable<void> {
    run.note(std::to_string(j.attempt()) + "/" + std::to_string(j.max_attempts()));
    if (j.attempt() == 2) throw 7;
    throw std::runtime_error{"attempt " + std::to_string(j.attempt())};
    co_return;
  });
  service.start();
  jobs::submit_options o{.max_attempts = 3};
  const auto id = run.now(service.submit("fails", "", o));
  run.note_result(service, id);
  run.time.run_for(1h);
  CHECK(run.log ==
        log_lines{"1/3@0", "2/3@5000", "3/3@10000", "job 1 of kind fails: attempt 3: the job has failed@10000"});
  const auto info = run.look(id);
  CHECK(info.state == job_state::dead);
  REQUIRE(info.history.size() == 3);
  CHECK(info.history[1].text == "an exception of an unknown type");
}

TEST_CASE("a hopeless job is dead at once", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("mail", [](jobs::job&) -> net::awaitable<void> {
    throw jobs::hopeless{"no such address"};
    co_return;
  });
  service.start();
  run.note_result(service, run.now(service.submit("mail", "")));
  run.time.run_for(1s);
  CHECK(run.log == log_lines{"job 1 of kind mail: no such address: the job has failed@0"});
}

TEST_CASE("a job without a handler fails and is tried again", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.start();
  const auto id = run.now(service.submit("unknown", ""));
  run.time.run_for(6s);
  const auto info = run.look(id);
  CHECK(info.state == job_state::waiting);
  REQUIRE(info.history.size() == 2);
  CHECK(info.history[0].text == "no handler for jobs of kind unknown");
}

TEST_CASE("a job that comes later and matters more goes first", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("takes 1 s", [&](jobs::job& j) -> net::awaitable<void> {
    run.note(j.payload());
    co_await sleep_for(1s);
  });
  service.start();
  const auto submit = [&](std::string name, int priority, duration delay = 0s) {
    jobs::submit_options o{.priority = priority, .delay = delay};
    run.now(service.submit("takes 1 s", std::move(name), o));
  };
  submit("first", 5);
  submit("late", 5);
  submit("later", 5);
  submit("important", 0);
  submit("important and delayed", 0, 1500ms);
  run.time.run_for(10s);
  CHECK(run.log == log_lines{"first@0", "important@1000", "important and delayed@2000", "late@3000", "later@4000"});
}

TEST_CASE("a queue runs as many jobs at once as it says, whatever the others do", "[jobs]") {
  service_run run;
  jobs::service_options o;
  o.queues.push_back({.name = "mail", .concurrency = 2});
  o.queues.push_back({.name = "reports", .concurrency = 1});
  jobs::service service{run.io, run.store, o};
  int mails = 0, most = 0;
  service.handle("mail", [&](jobs::job& j) -> net::awaitable<void> {
    most = std::max(most, ++mails);
    run.note(j.payload());
    co_await sleep_for(1s);
    --mails;
  });
  service.handle("report", [&](jobs::job&) -> net::awaitable<void> {
    run.note("report");
    co_await sleep_for(1h);
  });
  for (int i = 0; i < 5; ++i) run.put({.queue = "mail", .kind = "mail", .payload = std::to_string(i)});
  run.put({.queue = "elsewhere", .kind = "mail", .payload = "never"});
  run.put({.queue = "reports", .kind = "report"});
  service.start();
  run.time.poll();
  CHECK(service.pool("mail").stats().working == 2);
  run.time.run_for(1min);
  CHECK(most == 2);
  std::ranges::sort(run.log);
  CHECK(run.log == log_lines{"0@0", "1@0", "2@1000", "3@1000", "4@2000", "report@0"});
  CHECK(service.pool("mail").stats().succeeded == 5);
  CHECK(refusal_of([&] { service.pool("elsewhere").stats(); }) ==
        "service.pool: queue is elsewhere; allowed: a queue of this service: invalid argument");
}

TEST_CASE("a run ends at its timeout, and is tried again", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.queues[0].timeout = 2s;
  jobs::service service{run.io, run.store, o};
  service.handle("hangs once", [&](jobs::job& j) -> net::awaitable<std::string> {
    CHECK(j.deadline() == run.time.now() + 2s);
    if (j.attempt() == 1) co_await sleep_for(1h);
    co_return "at last";
  });
  service.start();
  const auto id = run.now(service.submit("hangs once", ""));
  run.note_result(service, id);
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"at last@7000"});
  CHECK(run.look(id).history.size() == 1);
}

TEST_CASE("a deadline ends a job that waits, and one that runs", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("hangs", [&](jobs::job& j) -> net::awaitable<void> {
    run.note(j.payload());
    CHECK_FALSE(j.stop_requested());
    co_await outcome_of(sleep_for(1h));
    CHECK(j.stop_requested());
    throw std::runtime_error{"not done"};
  });
  service.start();
  for (const char* name : {"runs", "waits"}) {
    jobs::submit_options o{.expires_in = 3s};
    run.note_result(service, run.now(service.submit("hangs", name, o)));
  }
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"runs@0", "job 1 of kind hangs: the job's deadline has passed@3000",
                             "job 2 of kind hangs: the job's deadline has passed@3000"});
}

TEST_CASE("of jobs with one key there is one, and its number is told", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("order", [&](jobs::job& j) -> net::awaitable<void> {
    run.note(j.payload());
    co_await sleep_for(1s);
  });
  service.start();
  std::vector<jobs::job_id> ids;
  for (const char* name : {"first", "second"}) {
    jobs::submit_options o{.unique = "order-7"};
    ids.push_back(run.now(service.submit("order", name, o)));
  }
  run.time.run_for(2s);
  jobs::submit_options o{.unique = "order-7"};
  ids.push_back(run.now(service.submit("order", "after the end", o)));
  run.time.run_for(2s);
  CHECK(run.log == log_lines{"first@0", "after the end@2000"});
  CHECK(ids == std::vector<jobs::job_id>{1, 1, 2});
}

TEST_CASE("options may be written where the call is awaited, under every compiler", "[jobs]") {
  STATIC_REQUIRE(std::is_trivially_destructible_v<jobs::submit_options>);  // or g++ 12 destroys them twice
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("order", noted_sleep(run, 1s));
  service.start();
  run.go([&]() -> net::awaitable<void> {
    const std::string key(40, 'k');
    const auto first = co_await service.submit("order", "first", {.unique = key + "-1"});
    const auto again = co_await service.submit("order", "again", {.unique = key + "-1"});
    CHECK(again == first);
    auto unstarted = service.submit("order", "second", {.queue = "default", .unique = key + "-2"});
    const auto second = co_await std::move(unstarted);
    CHECK(second != first);
    const std::string result = co_await service.submit_and_wait("order", "third", {.unique = key + "-3"});
    CHECK(result.starts_with("by token"));
  });
  run.time.run_for(10s);
  CHECK(run.names() == "first is oversecond is overthird is over");
}

TEST_CASE("a job runs again after the time that it asks for, and uses up no attempt", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("polls", [&](jobs::job& j) -> net::awaitable<std::string> {
    run.note("attempt " + std::to_string(j.attempt()));
    if (run.log.size() < 3) j.snooze(10min);
    co_return "ready";
  });
  service.start();
  const auto id = run.now(service.submit("polls", ""));
  run.note_result(service, id);
  run.time.run_for(1h);
  CHECK(run.log == log_lines{"attempt 1@0", "attempt 1@600000", "attempt 1@1200000", "ready@1200000"});
  CHECK(run.look(id).snoozes == 2);
}

TEST_CASE("a job that snoozes after each run is there once, for all processes and starts", "[jobs]") {
  service_run run;
  for (int start = 0; start < 3; ++start) {
    jobs::service service{run.io, run.store, one_queue()};
    jobs::service other{run.io, run.store, one_queue()};
    for (auto* s : {&service, &other}) {
      s->handle("clean up", [&](jobs::job& j) -> net::awaitable<void> {
        run.note("cleaned");
        co_await sleep_for(1s);
        j.snooze(10min);
      });
      s->start();
      jobs::submit_options o{.max_attempts = 1, .unique = "clean up"};
      run.now(s->submit("clean up", "", o));
    }
    run.time.run_for(15min);
    for (auto* s : {&service, &other}) s->request_stop();
    run.time.run_for(1min);
  }
  CHECK(run.log == log_lines{"cleaned@0", "cleaned@601000", "cleaned@1202000", "cleaned@1803000", "cleaned@2404000"});
}

TEST_CASE("a job that runs tells how far it is", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("long", [&](jobs::job& j) -> net::awaitable<std::string> {
    CHECK(refusal_of([&] { j.snooze(-1s); }) == "job.snooze is -1s; allowed: 0 or more: invalid argument");
    j.progress("a third");
    j.progress("half");
    co_await sleep_for(1min);
    co_return "all";
  });
  service.start();
  const auto id = run.now(service.submit("long", ""));
  run.time.run_for(15s);
  CHECK(run.look(id).result == "half");
  run.time.run_for(1min);
  CHECK(run.look(id).result == "all");
}

TEST_CASE("a crash uses up no attempt", "[jobs]") {
  service_run run{{.most_crashes = 2, .after_crash = backoff::constant(1s)}};
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", [&](jobs::job& j) -> net::awaitable<std::string> {
    co_return "attempt " + std::to_string(j.attempt()) + " after " + std::to_string(j.crashes()) + " crash";
  });
  const auto id = run.put({.kind = "kind", .max_attempts = 1}).id;
  jobs::claim_request r{.lease = 3s};
  REQUIRE(run.now(run.memory.claim(r)).size() == 1);  // by a process that ends now
  service.start();
  run.note_result(service, id);
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"attempt 1 after 1 crash@4000"});
}

TEST_CASE("a job that breaks its process again and again is set aside", "[jobs]") {
  service_run run{{.most_crashes = 2, .after_crash = backoff::constant(1s)}};
  const auto poison = run.put({.kind = "poison"}).id;
  for (int i = 0; i < 2; ++i) {
    jobs::claim_request r{.lease = 1s};
    run.now(run.memory.claim(r));
    run.time.run_for(1s);
    run.now(run.memory.claim(r));  // finds that the lease is over
    run.time.run_for(1s);
  }
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("poison", [&](jobs::job&) -> net::awaitable<void> {
    run.note("ran");
    co_return;
  });
  service.start();
  run.note_result(service, poison);
  run.time.run_for(1min);
  CHECK(run.names() == "job 1 of kind poison: the job broke its process too often");
  CHECK(run.now(service.requeue(poison)).what == jobs::requeue_answer::type::requeued);
  run.time.run_for(1s);
  CHECK(run.state(poison) == job_state::done);
}

TEST_CASE("a queue that is paused begins no job", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", [&](jobs::job&) -> net::awaitable<void> {
    run.note("ran");
    co_return;
  });
  service.start();
  run.go([&]() -> net::awaitable<void> {
    co_await service.pause("default");
    co_await service.submit("kind", "");
    co_await sleep_for(1h);
    co_await service.resume("default");
  });
  run.time.run_for(2h);
  CHECK(run.log == log_lines{"ran@3600000"});
}

TEST_CASE("the wait for a result ends with its cancellation and with the service", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, {}};  // it hands jobs in only
  const auto id = run.now(service.submit("kind", ""));
  net::cancellation_signal signal;
  std::error_code cancelled, stopped;
  const auto waits = [&]() -> net::awaitable<void> { co_await service.result(id); };
  run.go(waits, signal, cancelled);
  run.time.poll();
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(cancelled == net::error::operation_aborted);
  net::cancellation_signal unused;
  run.go(waits, unused, stopped);
  run.time.poll();
  service.request_stop();
  run.time.poll();
  CHECK(stopped == errc::stopped);
  CHECK(run.now(service.cancel(id)) == jobs::cancel_answer::cancelled);
  run.note_result(service, id);
  run.time.poll();
  CHECK(run.names() == "job 1 of kind kind: the job was cancelled");
}

TEST_CASE("each queue forgets its ended jobs as it says", "[jobs]") {
  service_run run;
  jobs::service_options o;
  o.queues.push_back({.name = "short", .keep_ended = 1h});
  o.queues.push_back({.name = "few", .keep_ended = duration::max(), .most_ended = 2});
  o.queues.push_back({.name = "all", .keep_ended = duration::max()});
  jobs::service service{run.io, run.store, o};
  service.handle("kind", [](jobs::job&) -> net::awaitable<void> { co_return; });
  service.start();
  const auto ended = [&](const std::string& queue) {
    for (const auto& c : run.now(run.memory.count())) {
      if (c.queue == queue) return c.of(job_state::done);
    }
    return std::size_t{0};
  };
  for (int i = 0; i < 4; ++i) {
    for (const char* queue : {"short", "few", "all"}) run.put({.queue = queue, .kind = "kind"});
    run.time.run_for(40min);
  }
  CHECK(ended("short") == 2);
  CHECK(ended("few") == 2);
  CHECK(ended("all") == 4);
  CHECK(run.store.calls.count("trim all") == 0);
}

TEST_CASE("the jobs of a queue that have ended are looked through once a minute while jobs end", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", [](jobs::job&) -> net::awaitable<void> { co_return; });
  service.start();
  for (int i = 0; i <= 600; ++i) {
    run.put({.kind = "kind"});
    run.time.run_for(1s);
  }
  CHECK(run.store.calls["trim default"] == 11);
}

TEST_CASE("a call of a service or store that nobody starts has no effect, but a stop begins at once", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", [](jobs::job&) -> net::awaitable<void> { co_return; });
  service.start();
  run.time.poll();
  const auto before = run.store.calls;
  {
    const auto submitted = service.submit("kind", "");
    const auto waited = service.submit_and_wait("kind", "", {});
    const auto paused = service.pause("default");
    const auto put = run.memory.put({.kind = "kind"});
  }
  run.time.poll();
  CHECK(run.store.calls == before);
  CHECK(run.now(run.memory.look(1)) == std::nullopt);
  {
    const auto unstarted = service.stop();
  }
  bool has_stopped = false;
  run.go([&]() -> net::awaitable<void> {
    co_await service.closed();
    has_stopped = true;
  });
  run.time.run();
  CHECK(has_stopped);
}

TEST_CASE("a service refuses options and handlers outside their range", "[jobs]") {
  service_run run;
  const auto refusal = [&](auto change) {
    return reason_of([&] {
      auto o = one_queue();
      change(o);
      jobs::service service{run.io, run.store, o};
    });
  };
  CHECK(refusal([](auto& o) { o.most_store_failures = 0; }) ==
        "service_options.most_store_failures is 0; allowed: 1 or more, or unlimited");
  CHECK(refusal([](auto& o) { o.lease = 999us; }) == "service_options.lease is 999us; allowed: 1ms or more");
  CHECK(refusal([](auto& o) { o.store_retry.factor = 0; }).starts_with("service_options.store_retry"));
  CHECK(refusal([](auto& o) { o.queues[0].name = ""; }) == "queue_options.name is ; allowed: 1 to 255 bytes");
  CHECK(refusal([](auto& o) { o.queues.push_back(o.queues[0]); }) ==
        "queue_options.name is default; allowed: one queue of each name");
  CHECK(refusal([](auto& o) { o.queues[0].concurrency = 0; }) ==
        "queue_options.concurrency is 0; allowed: 1 to 100'000");
  CHECK(refusal([](auto& o) { o.queues[0].concurrency = 100'001; }).starts_with("queue_options.concurrency"));
  CHECK(refusal([](auto& o) { o.queues[0].name = std::string(256, 'q'); }).starts_with("queue_options.name"));
  CHECK(refusal([](auto& o) { o.lease = 1ms; }).empty());
  CHECK(refusal([](auto& o) { o.queues[0].concurrency = 1; }).empty());
  CHECK(refusal([](auto& o) { o.queues[0].concurrency = 100'000; }).empty());
  CHECK(refusal([](auto& o) { o.queues[0].name = std::string(255, 'q'); }).empty());
  check_timeout_option("queue_options.timeout", [&](canigo::duration d) {
    auto o = one_queue();
    o.queues[0].timeout = d;
    jobs::service service{run.io, run.store, o};
  });
  CHECK(refusal([](auto& o) { o.queues[0].retry.factor = 0; }).starts_with("queue_options.retry"));
  CHECK(refusal([](auto& o) { o.queues[0].restart.within = 0s; }).find("within") != std::string::npos);
  CHECK(refusal([](auto& o) { o.queues[0].keep_ended = -1s; }) == "trim_request.older_than is -1s; allowed: 0 or more");

  jobs::service service{run.io, run.store, one_queue()};
  const auto handle = [&](std::string kind) {
    return reason_of([&] { service.handle(kind, [](jobs::job&) -> net::awaitable<void> { co_return; }); });
  };
  CHECK(handle("") == "service.handle: kind is ; allowed: 1 to 255 bytes");
  CHECK(handle(std::string(256, 'k')).starts_with("service.handle: kind is kkk"));
  CHECK(handle(std::string(255, 'k')).empty());
  CHECK(handle("kind").empty());
  CHECK(handle("kind") == "service.handle: kind is kind; allowed: one handler for each kind");
  service.start();
  CHECK(handle("late") == "service.handle: kind is late; allowed: handlers are named before start()");
  CHECK(reason_of([&] { service.request_stop(stop_mode{0}); }).find("stop") != std::string::npos);
}
