#include "canigo/jobs/store_observer.hpp"

#include "canigo/jobs/error.hpp"
#include "canigo/jobs/service.hpp"

#include "service_run.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("a store that fails is told of with its cause, until it does not", "[jobs]") {
  struct watcher final : jobs::store_observer {
    void store_failed(const jobs::store_failure& f) noexcept override {
      log.push_back(std::to_string(f.failures) + " " + std::string{f.text} + (f.code ? "" : " without a code"));
    }
    void store_recovered() noexcept override { log.emplace_back("recovered"); }
    std::vector<std::string> log;
  };
  service_run run;
  watcher seen;
  auto o = one_queue();
  o.store_retry = backoff::constant(1s);
  o.observer = &seen;
  jobs::service service{run.io, run.store, o};
  service.start();
  run.time.run_for(1s);
  CHECK(service.stats().last_error.empty());
  CHECK_FALSE(service.stats().last_error_code);
  CHECK(seen.log.empty());

  run.store.fails["next_due"] = make_error_code(jobs::error::read_only);
  run.put({.kind = "other", .delay = 1h});
  run.time.run_for(1500ms);
  const auto said = said_by(std::system_error{make_error_code(jobs::error::read_only), "next_due"});
  CHECK(service.stats().last_error == said);
  CHECK(service.stats().last_error_code == jobs::error::read_only);
  CHECK(service.stats().store_failures == 2);
  CHECK(seen.log == std::vector<std::string>{"1 " + said, "2 " + said});

  // Counts fail for a reason of their own.
  run.store.fails["count"] = make_error_code(jobs::error::locked);
  service.stats();
  run.time.run_for(100ms);
  CHECK(service.stats().last_error_code == jobs::error::locked);
  run.store.fails.erase("next_due");
  seen.log.clear();
  run.time.run_for(2s);
  CHECK(service.stats().last_error_code == jobs::error::locked);
  CHECK(seen.log.empty());
  run.store.fails.clear();
  service.stats();
  run.time.run_for(2s);
  service.stats();
  run.time.run_for(2s);
  CHECK(service.stats().last_error.empty());
  CHECK(std::ranges::count(seen.log, "recovered") == 1);

  run.store.lacks_memory_once = "next_due";
  seen.log.clear();
  run.put({.kind = "other", .delay = 1h});
  run.time.run_for(100ms);
  CHECK(service.stats().last_error == "std::bad_alloc");
  CHECK(seen.log == std::vector<std::string>{"1 std::bad_alloc without a code"});
  run.time.run_for(2s);
  CHECK(service.stats().last_error.empty());
  service.request_stop();
  run.time.run_for(1s);
}

TEST_CASE("a store that can be read and not written is no store that is back", "[jobs]") {
  struct watcher final : jobs::store_observer {
    void store_failed(const jobs::store_failure& f) noexcept override { failures = f.failures; }
    void store_recovered() noexcept override { ++recovered; }
    std::uint32_t failures = 0;
    int recovered = 0;
  };
  service_run run;
  watcher seen;
  auto o = one_queue(2);
  o.store_retry = backoff::constant(1s);
  o.observer = &seen;
  jobs::service service{run.io, run.store, o};
  service.handle("kind", noted_sleep(run, 0s));
  service.start();
  for (const char* write : {"complete", "extend"}) run.store.fails[write] = make_error_code(jobs::error::full);
  run.put({.kind = "kind", .payload = "it"});
  run.time.run_for(10s);
  // What comes for later makes the service look when it is due, which is a read.
  run.put({.kind = "kind", .payload = "later", .delay = 1h});
  run.time.run_for(10s);
  CHECK(service.stats().last_error_code == jobs::error::full);
  CHECK(seen.failures > 2);
  CHECK(seen.recovered == 0);
  run.store.fails.clear();
  run.time.run_for(10s);
  CHECK(service.stats().last_error.empty());
  CHECK(seen.recovered == 1);
  service.request_stop();
  run.time.run_for(1s);
}
