#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"
#include "canigo/jobs/service.hpp"
#include "canigo/limiter.hpp"
#include "canigo/permit.hpp"
#include "canigo/rate.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/timeout.hpp"

#include "service_run.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

jobs::service_options limited(jobs::admission limit, std::size_t concurrency = 1) {
  auto o = one_queue(concurrency);
  o.queues[0].limit = std::move(limit);
  return o;
}

/// A permit that is lost as soon as it is used.
struct lost_permit {
  std::uint64_t places = 0;
  lost_permit() = default;
  lost_permit(lost_permit&& other) noexcept : places{std::exchange(other.places, 0)} {}
  lost_permit& operator=(lost_permit&& other) noexcept {
    places = std::exchange(other.places, 0);
    return *this;
  }
  void release() noexcept { places = 0; }
  std::uint64_t held() const noexcept { return places; }
  explicit operator bool() const noexcept { return places > 0; }
  template <class T>
  net::awaitable<T> wrap(net::awaitable<T>) const {
    throw std::system_error{make_error_code(errc::lease_lost)};
    co_return T{};
  }
};

}  // namespace

TEST_CASE("jobs go out within a rate, the important ones first", "[jobs]") {
  service_run run;
  scheduler quota{run.io, {.rate = rate::per_second(1), .initial_tokens = 1}};
  jobs::service service{run.io, run.store, limited(jobs::within(quota), 8)};
  service.handle("kind", [&](jobs::job& j) -> net::awaitable<void> {
    run.note(j.payload());
    co_return;
  });
  service.start();
  run.go([&]() -> net::awaitable<void> {
    for (const char* name : {"a", "b", "c"}) {
      jobs::submit_options o{.priority = 3};
      co_await service.submit("kind", name, o);
    }
    co_await sleep_for(500ms);
    co_await service.submit("kind", "important");
  });
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"a@0", "important@1000", "b@2000", "c@3000"});
}

TEST_CASE("the tokens and permits for a job that another process took go back", "[jobs]") {
  service_run run;
  semaphore slots{run.io, {.permits = 1}};
  scheduler quota{run.io, {.rate = rate::per_second(1), .initial_tokens = 1}};
  limiter api{run.io, {.rates = {{rate{1, 1h}, 1, 1}}, .concurrency = 1}};
  const auto limit = GENERATE(0, 1, 2);
  jobs::service service{run.io, run.store,
                        limited(limit == 0   ? jobs::within(slots)
                                : limit == 1 ? jobs::within(quota)
                                             : jobs::within(api))};
  run.store.claims_nothing_once = true;
  run.put({.kind = "kind"});
  service.handle("kind", [&](jobs::job&) -> net::awaitable<void> {
    run.note("ran");
    co_return;
  });
  service.start();
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"ran@0"});  // and not when there is another token, or never
  CHECK(run.store.calls["claim"] == 2);
}

TEST_CASE("a permit is held while its job runs, and an idle queue holds none", "[jobs]") {
  service_run run;
  semaphore slots{run.io, {.permits = 1}};
  jobs::service_options o;
  for (const char* name : {"a", "b"}) o.queues.push_back({.name = name, .limit = jobs::within(slots)});
  jobs::service service{run.io, run.store, o};
  service.handle("kind", [&](jobs::job& j) -> net::awaitable<void> {
    run.note(j.queue());
    CHECK(slots.stats().held == 1);
    co_await sleep_for(1s);
  });
  service.start();
  for (const char* queue : {"a", "b", "a", "b"}) run.put({.queue = queue, .kind = "kind"});
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"a@0", "b@1000", "a@2000", "b@3000"});
  CHECK(slots.stats().held == 0);
}

TEST_CASE("a limit is asked for jobs that are there, and not after the last one", "[jobs]") {
  service_run run;
  scheduler quota{run.io, {.rate = rate::per_second(1), .initial_tokens = 1}};
  jobs::service service{run.io, run.store, limited(jobs::within(quota))};
  service.handle("kind", [&](jobs::job&) -> net::awaitable<void> { co_return; });
  service.start();
  for (int i = 0; i < 2; ++i) run.put({.kind = "kind"});
  run.time.run_for(1min);
  CHECK(quota.stats().granted == 2);
  CHECK(run.store.calls["claim"] == 2);
}

TEST_CASE("a job whose permit is lost has failed", "[jobs]") {
  service_run run;
  const jobs::admission limit = []() -> net::awaitable<std::shared_ptr<jobs::admitted>> {
    co_return std::make_shared<jobs::detail::permit_of<lost_permit>>(lost_permit{});
  };
  jobs::service service{run.io, run.store, limited(limit)};
  service.handle("kind", [&](jobs::job&) -> net::awaitable<void> {
    run.note("ran");
    co_return;
  });
  service.start();
  const auto id = run.put({.kind = "kind", .max_attempts = 1}).id;
  run.note_result(service, id);
  run.time.run_for(1min);
  REQUIRE(run.log.size() == 1);
  CHECK(run.names().find("the job has failed") != std::string::npos);
}

TEST_CASE("a service stops while it waits for a limit, and with a limit that is stopped", "[jobs]") {
  service_run run;
  scheduler quota{run.io, {.rate = rate{1, 1h}}};
  jobs::service service{run.io, run.store, limited(jobs::within(quota))};
  jobs::service other{run.io, run.store, limited(jobs::within(quota))};
  service.handle("kind", [](jobs::job&) -> net::awaitable<void> { co_return; });
  const auto id = run.put({.kind = "kind"}).id;
  service.start();
  other.start();
  run.time.run_for(1s);
  run.go([&]() -> net::awaitable<void> {
    co_await service.stop();
    run.note("stopped");
    quota.stop();
    CHECK(co_await outcome_of(other.closed()) == errc::stopped);
    run.note("the other one, too");
  });
  run.time.run_for(1min);
  CHECK(run.log == log_lines{"stopped@1000", "the other one, too@1000"});
  CHECK(run.state(id) == jobs::job_state::waiting);
}
