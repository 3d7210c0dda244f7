#include "canigo/jobs/memory_store.hpp"

#include "canigo/timeout.hpp"

#include "service_run.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"

#include <asio/cancellation_signal.hpp>

#include <chrono>
#include <memory>
#include <string>

using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("a change of a store wakes all who wait for it", "[jobs]") {
  limits_run run;
  jobs::memory_store store{run.io};
  for (const char* name : {"a", "b"}) {
    run.go([&, name]() -> net::awaitable<void> {
      const auto seen = co_await store.changed(0);
      run.note(name);
      const auto next = co_await store.changed(seen);
      CHECK(next > seen);
      run.note(name);
    });
  }
  run.go([&]() -> net::awaitable<void> {
    co_await sleep_for(10ms);
    jobs::new_job j{.kind = "kind"};
    co_await store.put(j);
  });
  run.time.run();
  CHECK(run.log == std::vector<std::string>{"a@0", "b@0", "a@10", "b@10"});
}

TEST_CASE("a claim, a look and a renewal are no change of a store", "[jobs]") {
  limits_run run;
  jobs::memory_store store{run.io};
  run.go([&]() -> net::awaitable<void> {
    jobs::new_job j{.kind = "kind"};
    const auto answer = co_await store.put(j);
    const auto seen = co_await store.changed(0);
    jobs::claim_request r;
    const auto list = co_await store.claim(r);
    co_await store.extend(list.front().lease, 1min, std::nullopt);
    co_await store.look(answer.id);
    co_await store.count();
    CHECK(co_await store.changed(0) == seen);
  });
  run.time.run();
}

TEST_CASE("a wait for a change of a store ends with its cancellation, its stop and its end", "[jobs]") {
  limits_run run;
  auto store = std::make_unique<jobs::memory_store>(run.io);
  net::cancellation_signal signal;
  std::error_code cancelled;
  const auto waits = [&]() -> net::awaitable<void> {
    const auto seen = co_await store->changed(0);
    co_await store->changed(seen);
  };
  run.go(waits, signal, cancelled);
  run.time.poll();
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(cancelled == net::error::operation_aborted);

  std::error_code stopped;
  run.go(waits, signal, stopped);
  run.time.poll();
  store.reset();
  run.time.poll();
  CHECK(stopped == errc::stopped);
}

TEST_CASE("a store refuses a policy outside its range", "[jobs]") {
  net::io_context io;
  CHECK(refusal_of([&] { jobs::memory_store store{io, {.most_crashes = 0}}; }) ==
        "store_policy.most_crashes is 0; allowed: 1 or more: invalid argument");
  CHECK(refusal_of([&] {
          jobs::memory_store store{io, {.after_crash = {.factor = 0}}};
        }).starts_with("store_policy.after_crash"));
}

TEST_CASE("the last job of a batch that is removed lets those begin that wait for it", "[jobs]") {
  service_run run;
  const auto first = run.put({.kind = "kind", .batch = "b"}).id;
  run.put({.kind = "kind", .after_batch = "b"});
  run.put({.kind = "kind", .delay = 1h});
  CHECK(run.now(run.memory.remove(first)) == jobs::remove_answer::removed);
  CHECK(run.now(run.memory.next_due("default")) <= 0s);
}

TEST_CASE("a key for a time that is over is free when the job ends", "[jobs]") {
  service_run run;
  const auto id =
      run.put({.kind = "kind", .unique_key = "k", .scope = jobs::unique_scope::for_a_time, .unique_for = 10s}).id;
  const auto claimed = run.now(run.memory.claim({}));
  CHECK(run.look(id).unique_key == "k");
  run.time.run_for(10s);
  CHECK(run.now(run.memory.complete(claimed.at(0).lease, "")) == jobs::verdict::accepted);
  CHECK(run.look(id).unique_key.empty());
}

TEST_CASE("a context may go before the store on it, and with callers that wait", "[jobs]") {
  auto io = std::make_unique<net::io_context>();
  jobs::memory_store store{*io};
  net::co_spawn(
      *io, [&]() -> net::awaitable<void> { co_await store.changed(co_await store.changed(0)); }, net::detached);
  io->poll();
  io.reset();
}
