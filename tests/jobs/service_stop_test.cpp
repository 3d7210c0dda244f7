#include "canigo/jobs/service.hpp"
#include "canigo/pool.hpp"
#include "canigo/stop_on_signals.hpp"
#include "canigo/timeout.hpp"

#include "service_run.hpp"
#include "support/catch.hpp"

#include <asio/cancellation_signal.hpp>
#include <asio/signal_set.hpp>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

using namespace canigo;
using namespace std::chrono_literals;
using jobs::job_state;

namespace {

/// A service with one job that runs, takes 10 s, and perhaps ignores its cancellation, and one that waits.
struct stopped_service : service_run {
  explicit stopped_service(bool is_deaf = false) {
    service.handle("takes 10 s", [this, is_deaf](jobs::job& j) -> net::awaitable<std::string> {
      const time_point end = time.now() + 10s;
      while (time.now() < end) {
        const auto ec = co_await outcome_of(sleep_until(end));
        if (ec) note(j.stop_requested() ? "told to end" : "cancelled for no reason");
        if (ec && !is_deaf) throw std::runtime_error{"in the middle"};
        co_await net::this_coro::reset_cancellation_state();
      }
      co_return "done";
    });
    runs = put({.kind = "takes 10 s"}).id;
    waits = put({.kind = "takes 10 s"}).id;
    service.start();
    time.run_for(1s);
  }

  /// Notes when the stop is over.
  void stop(stop_mode mode, duration grace = duration::max()) {
    go([this, mode, grace]() -> net::awaitable<void> {
      co_await service.stop(mode, grace);
      note("stopped");
    });
  }
  void check_that_it_waits(jobs::job_id id) {
    const auto info = look(id);
    CHECK(info.state == job_state::waiting);
    CHECK(info.attempt == 0);
    CHECK(info.crashes == 0);
    CHECK(info.history.empty());
    CHECK(now(memory.next_due("default")) <= 0s);
  }

  jobs::service service{io, store, one_queue()};
  jobs::job_id runs = 0;
  jobs::job_id waits = 0;
};

}  // namespace

TEST_CASE("a soft stop lets the jobs end that run, and leaves the others", "[jobs]") {
  for (const stop_mode mode : {stop_mode::finish_running, stop_mode::drain}) {
    stopped_service run;
    run.stop(mode);
    run.stop(mode);
    run.time.run_for(1min);
    CHECK(run.log == log_lines{"stopped@10000", "stopped@10000"});
    CHECK(run.look(run.runs).result == "done");
    run.check_that_it_waits(run.waits);
  }
}

TEST_CASE("a job that the stop cancels goes back at once and uses up no attempt", "[jobs]") {
  stopped_service run;
  run.stop(stop_mode::cancel_all);
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"told to end@1000", "stopped@1000"});
  run.check_that_it_waits(run.runs);
  run.check_that_it_waits(run.waits);
}

TEST_CASE("a job that runs when the grace is over is cancelled then", "[jobs]") {
  for (const stop_mode mode : {stop_mode::finish_running, stop_mode::drain}) {
    stopped_service run;
    run.stop(mode, 3s);
    run.time.run_for(1min);
    CHECK(run.log == log_lines{"told to end@4000", "stopped@4000"});
    run.check_that_it_waits(run.runs);
  }
}

TEST_CASE("a harder stop may follow, and one who waits may go", "[jobs]") {
  stopped_service run;
  net::cancellation_signal signal;
  std::error_code ended;
  run.go([&]() -> net::awaitable<void> { co_await run.service.stop(); }, signal, ended);
  run.time.run_for(1s);
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(ended == net::error::operation_aborted);
  run.stop(stop_mode::cancel_all);
  run.stop(stop_mode::drain);
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"told to end@2000", "stopped@2000", "stopped@2000"});
}

TEST_CASE("a stop waits for a job that ignores it, and its result counts", "[jobs]") {
  stopped_service run{true};
  run.stop(stop_mode::cancel_all);
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"told to end@1000", "stopped@10000"});
  CHECK(run.look(run.runs).result == "done");
}

TEST_CASE("a job that was told to end before the stop has failed, however the stop goes on", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("slow to end", [&](jobs::job&) -> net::awaitable<void> {
    const auto ec = co_await outcome_of(sleep_for(1h));
    co_await net::this_coro::reset_cancellation_state();
    co_await outcome_of(sleep_for(5s));
    throw std::system_error{ec};
  });
  const auto id = run.now(service.submit("slow to end", ""));
  service.start();
  run.time.run_for(3s);
  run.now(service.cancel(id));
  run.time.run_for(1s);
  run.go([&]() -> net::awaitable<void> {
    co_await service.stop(stop_mode::cancel_all);
    run.note("stopped");
  });
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"stopped@4000"});
  CHECK(run.look(id).state == job_state::cancelled);
  CHECK(run.look(id).history.size() == 1);
}

TEST_CASE("what was claimed and not begun goes back at once", "[jobs]") {
  service_run run;
  run.store.delays["claim"] = 2s;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", [&](jobs::job&) -> net::awaitable<void> {
    run.note("ran");
    co_return;
  });
  const auto id = run.put({.kind = "kind"}).id;
  service.start();
  run.time.run_for(1s);
  run.go([&]() -> net::awaitable<void> {
    co_await service.stop();
    run.note("stopped");
    CHECK(co_await run.memory.next_due("default") <= 0s);
  });
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"stopped@2000"});
  CHECK(run.look(id).token == 1);
  CHECK(run.look(id).attempt == 0);
}

TEST_CASE("a service stops before it has begun, and begins no more after that", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  run.put({.kind = "kind"});
  run.now([](jobs::service& s) -> net::awaitable<int> {
    co_await s.stop();
    co_await s.closed();
    s.start();
    co_return 0;
  }(service));
  run.time.run_for(1h);
  CHECK(run.store.calls["claim"] == 0);
}

TEST_CASE("a handler may ask for the stop", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("last", [&](jobs::job&) -> net::awaitable<void> {
    service.request_stop();
    co_await sleep_for(1s);
  });
  const auto id = run.put({.kind = "last"}).id;
  service.start();
  run.go([&]() -> net::awaitable<void> {
    co_await service.closed();
    run.note("stopped");
  });
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"stopped@1000"});
  CHECK(run.state(id) == job_state::done);
}

TEST_CASE("workers that break too often stop the service, with that as the cause", "[jobs]") {
  service_run run;
  auto o = one_queue();
  o.queues[0].restart = {.limit = 1, .backoff = backoff::constant(1s)};
  jobs::service service{run.io, run.store, o};
  service.handle("breaks", [&](jobs::job&) -> net::awaitable<void> {
    run.note("ran");
    throw fatal_error{"the worker is broken"};
    co_return;
  });
  const auto id = run.put({.kind = "breaks"}).id;
  service.start();
  run.go([&]() -> net::awaitable<void> {
    try {
      co_await service.closed();
    } catch (const std::runtime_error& e) {
      run.note(e.what());
    }
  });
  run.time.run_for(1h);
  CHECK(run.log == log_lines{"ran@0", "ran@5000", "the worker is broken@5000"});
  CHECK(run.state(id) == job_state::waiting);
}

TEST_CASE("the end of a service cancels what it runs, and a result that waits", "[jobs]") {
  service_run run;
  std::optional<jobs::service> service;
  service.emplace(run.io, run.store, one_queue());
  service->handle("hangs", [&](jobs::job&) -> net::awaitable<void> {
    const auto ec = co_await outcome_of(sleep_for(1h));
    run.note(ec == net::error::operation_aborted ? "cancelled" : "not cancelled");
    throw std::system_error{ec};
  });
  const auto id = run.now(service->submit("hangs", ""));
  service->start();
  std::error_code waited;
  run.go([&]() -> net::awaitable<void> { waited = co_await outcome_of(service->result(id)); });
  run.time.run_for(1s);
  service.reset();
  run.time.run_for(1s);
  CHECK(run.log == log_lines{"cancelled@1000"});
  CHECK(waited == errc::stopped);
  CHECK(run.state(id) == job_state::waiting);
}

TEST_CASE("after its end a service renews no lease, though a job goes on", "[jobs]") {
  service_run run;
  std::optional<jobs::service> service;
  service.emplace(run.io, run.store, one_queue());
  service->handle("is deaf", [&](jobs::job&) -> net::awaitable<void> {
    for (const time_point end = run.time.now() + 1h; run.time.now() < end;) {
      std::ignore = co_await outcome_of(sleep_until(end));
      co_await net::this_coro::reset_cancellation_state();
    }
  });
  run.put({.kind = "is deaf"});
  service->start();
  run.time.run_for(1min);
  const int renewals = run.store.calls["extend"];
  CHECK(renewals > 0);
  service.reset();
  run.time.run_for(30min);
  CHECK(run.store.calls["extend"] == renewals);
  run.time.run_for(1h);
}

TEST_CASE("a signal stops a service softly, with a grace", "[jobs]") {
  stopped_service run;
  stop_on_signals signals{run.io, run.service, {.grace = 5s}};
  net::signal_set heard{run.io, SIGTERM};
  bool is_there = false;
  heard.async_wait([&](std::error_code, int) { is_there = true; });
  run.go([&]() -> net::awaitable<void> {
    co_await run.service.closed();
    run.note("closed");
  });
  run.time.poll();
  std::raise(SIGTERM);
  while (!is_there) run.time.poll();  // it comes through a pipe, which takes the kernel a moment
  run.time.run();
  CHECK(run.log == log_lines{"told to end@6000", "closed@6000"});
  run.check_that_it_waits(run.runs);
}

TEST_CASE("a service may go before the watch of signals, and after it", "[jobs]") {
  const bool goes_first = GENERATE(true, false);
  service_run run;
  std::optional<jobs::service> service;
  service.emplace(run.io, run.store, one_queue());
  std::optional<stop_on_signals> signals;
  signals.emplace(run.io, *service);
  std::raise(SIGTERM);
  if (!goes_first) signals.reset();
  service.reset();
  run.time.run();
}

TEST_CASE("a context may go before the service and the store on it", "[jobs]") {
  auto io = std::make_unique<net::io_context>();
  jobs::memory_store store{*io};
  jobs::service service{*io, store, one_queue()};
  service.handle("hangs", [](jobs::job&) -> net::awaitable<void> { co_await sleep_for(1h); });
  service.start();
  net::co_spawn(
      *io,
      [&]() -> net::awaitable<void> {
        const auto id = co_await service.submit("hangs", "");
        co_await service.result(id);
      },
      net::detached);
  io->poll();
  CHECK(service.pool("default").stats().working == 1);
  io.reset();
}
