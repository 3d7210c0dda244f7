#include "canigo/jobs/service.hpp"

#include "canigo/jobs/error.hpp"
#include "canigo/jobs/memory_store.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <chrono>
#include <stdexcept>
#include <string>

using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("a service runs jobs, tries those again that fail, and tells their results", "[jobs]") {
  limits_run run;
  jobs::memory_store store{run.io};
  jobs::service service{run.io, store, {.queues = {{.concurrency = 2}}}};
  int failures = 0;
  service.handle("echo", [](jobs::job& j) -> net::awaitable<std::string> { co_return "got " + j.payload(); });
  service.handle("fails once", [&](jobs::job& j) -> net::awaitable<void> {
    if (j.attempt() == 1) ++failures, throw std::runtime_error{"not yet"};
    co_await sleep_for(1s);
  });
  service.handle("is hopeless", [](jobs::job&) -> net::awaitable<void> {
    throw jobs::hopeless{"no such address"};
    co_return;
  });
  service.start();
  std::string echoed, said;
  bool is_over = false;
  run.go([&]() -> net::awaitable<void> {
    const auto first = co_await service.submit("echo", "it");
    echoed = co_await service.result(first);
    const auto second = co_await service.submit("fails once", "");
    co_await service.result(second);
    const auto third = co_await service.submit("is hopeless", "");
    try {
      co_await service.result(third);
    } catch (const std::system_error& e) {
      CHECK(e.code() == jobs::error::job_failed);
      said = e.what();
    }
    co_await service.stop();
    is_over = true;
  });
  run.time.run_for(2h);
  CHECK(echoed == "got it");
  CHECK(failures == 1);
  CHECK(said.find("no such address") != std::string::npos);
  CHECK(is_over);
}
