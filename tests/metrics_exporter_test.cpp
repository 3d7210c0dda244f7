#include "canigo/metrics/exporter.hpp"
#include "canigo/strand_pool.hpp"

#include "catch.hpp"
#include "limits_run.hpp"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <atomic>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// The value of one series as the text has it, or nothing.
std::optional<std::string> value_of(const std::string& text, const std::string& series) {
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(series + " ")) return line.substr(series.size() + 1);
  }
  return std::nullopt;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a scheduler shows its queue, its tokens and how long callers waited", "[metrics]") {
  limits_run run;
  scheduler s{run.io, {.rate = rate::per_second(10), .priorities = 2}};
  metrics::exporter exporter;
  const auto shown = exporter.add("api", s);
  for (int i = 0; i < 5; ++i) {
    run.go([&, i]() -> net::awaitable<void> { (void)co_await outcome_of(s.acquire(i % 2)); });
  }
  run.time.run_for(250ms);
  const auto text = exporter.text();
  CAPTURE(text);
  CHECK(value_of(text, R"(canigo_requests_total{name="api",outcome="granted"})") == "2");
  CHECK(value_of(text, R"(canigo_requests_total{name="api",outcome="cancelled"})") == "0");
  CHECK(value_of(text, R"(canigo_waiting{name="api",class="0"})") == "1");
  CHECK(value_of(text, R"(canigo_waiting{name="api",class="1"})") == "2");
  CHECK(value_of(text, R"(canigo_granted_total{name="api",class="0"})") == "2");
  CHECK(value_of(text, R"(canigo_wait_seconds_count{name="api",class="0"})") == "2");
  CHECK(value_of(text, R"(canigo_wait_seconds_bucket{name="api",class="0",le="+Inf"})") == "2");
  CHECK(std::stod(*value_of(text, R"(canigo_wait_seconds_sum{name="api",class="0"})")) == Approx(0.3));
  CHECK(value_of(text, R"(canigo_tokens{name="api",rate="0"})") == "0");
  CHECK(text.find("# TYPE canigo_wait_seconds histogram") != std::string::npos);
  CHECK(text.find("# HELP canigo_waiting Requests that wait.") != std::string::npos);
  s.stop();
  run.time.run();
  CHECK(value_of(exporter.text(), R"(canigo_requests_total{name="api",outcome="stopped"})") == "3");
}

TEST_CASE("the buckets of a wait are cumulative and exact at their edges", "[metrics]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  metrics::exporter exporter;
  const auto shown = exporter.add("db", s);
  for (int i = 0; i < 3; ++i) {
    run.go([&]() -> net::awaitable<void> {
      const permit p = co_await s.acquire();
      co_await sleep_for(5ms);
    });
  }
  run.time.run();  // waited 0, 5 and 10 ms
  const auto text = exporter.text();
  CAPTURE(text);
  CHECK(value_of(text, R"(canigo_wait_seconds_bucket{name="db",class="0",le="1.024e-06"})") == "1");
  CHECK(value_of(text, R"(canigo_wait_seconds_bucket{name="db",class="0",le="0.004194304"})") == "1");
  CHECK(value_of(text, R"(canigo_wait_seconds_bucket{name="db",class="0",le="0.016777216"})") == "3");
  CHECK(value_of(text, R"(canigo_permits_held{name="db"})") == "0");
  CHECK(value_of(text, R"(canigo_permits_capacity{name="db"})") == "1");
}

TEST_CASE("a limiter shows each rate, and no capacity where there is none", "[metrics]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 10, 7}, {rate::per_second(1), 5, 5}}}};
  metrics::exporter exporter;
  const auto shown = exporter.add("limits", l);
  permit p = l.try_acquire({.tokens = 3}).value();
  p.settle(9);
  const auto text = exporter.text();
  CHECK(value_of(text, R"(canigo_tokens{name="limits",rate="0"})") == "-2");
  CHECK(value_of(text, R"(canigo_tokens{name="limits",rate="1"})") == "-4");
  CHECK(value_of(text, R"(canigo_permits_held{name="limits"})") == "1");
  CHECK_FALSE(value_of(text, R"(canigo_permits_capacity{name="limits"})"));
}

TEST_CASE("a pool shows its workers, its tasks and each name", "[metrics]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 2}};
  metrics::exporter exporter;
  const auto shown = exporter.add("jobs", pool);
  for (int i = 0; i < 5; ++i) pool.try_post([] { return sleep_for(100ms); }, {.name = "resize"});
  pool.try_post([] { throw std::runtime_error{"x"}; }, {.name = "broken"});
  run.time.run_for(150ms);
  auto text = exporter.text();
  CAPTURE(text);
  CHECK(value_of(text, R"(canigo_pool_workers{name="jobs",state="working"})") == "2");
  CHECK(value_of(text, R"(canigo_pool_tasks{name="jobs",state="queued"})") == "2");
  CHECK(value_of(text, R"(canigo_pool_submitted_total{name="jobs"})") == "6");
  run.time.run();
  text = exporter.text();
  CHECK(value_of(text, R"(canigo_pool_workers{name="jobs",state="working"})") == "0");
  CHECK(value_of(text, R"(canigo_pool_tasks{name="jobs",state="queued"})") == "0");
  CHECK(value_of(text, R"(canigo_pool_processed_total{name="jobs",outcome="succeeded"})") == "5");
  CHECK(value_of(text, R"(canigo_pool_processed_total{name="jobs",outcome="failed"})") == "1");
  CHECK(value_of(text, R"(canigo_pool_attempts_total{name="jobs",task="resize",outcome="succeeded"})") == "5");
  CHECK(value_of(text, R"(canigo_pool_attempts_total{name="jobs",task="broken",outcome="failed"})") == "1");
  CHECK(value_of(text, R"(canigo_pool_run_seconds_count{name="jobs",task="resize"})") == "5");
  CHECK(std::stod(*value_of(text, R"(canigo_pool_run_seconds_sum{name="jobs",task="resize"})")) == Approx(0.5));
}

TEST_CASE("the number of series is bounded, whatever the classes and names", "[metrics]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .priorities = 1024}};
  strand_pool pool{run.io, {.concurrency = 1}};
  metrics::exporter exporter;
  const auto shown = exporter.add("s", s);
  const auto jobs = exporter.add("pool", pool);
  for (int i = 0; i < 1024; ++i) s.try_acquire(i);
  for (int i = 0; i < 200; ++i) {
    const std::string name = "task " + std::to_string(i);
    pool.try_post([] {}, {.name = name});
  }
  run.time.run();
  const auto text = exporter.text();
  CHECK(count_of(text, "canigo_waiting{name=\"s\"") == 16);
  CHECK(value_of(text, R"(canigo_granted_total{name="s",class="14"})") == "1");
  CHECK(value_of(text, R"(canigo_granted_total{name="s",class="other"})") == "1009");
  CHECK(count_of(text, "canigo_pool_run_seconds_count") == 65);
  CHECK(value_of(text, R"(canigo_pool_attempts_total{name="pool",task="other",outcome="succeeded"})") == "136");
}

TEST_CASE("as many classes as are shown at most are shown one by one", "[metrics]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .priorities = 16}};
  metrics::exporter exporter;
  const auto shown = exporter.add("s", s);
  CHECK(s.try_acquire(15));
  const auto text = exporter.text();
  CHECK(count_of(text, "canigo_waiting{name=\"s\"") == 16);
  CHECK(value_of(text, R"(canigo_granted_total{name="s",class="15"})") == "1");
  CHECK_FALSE(value_of(text, R"(canigo_granted_total{name="s",class="other"})"));
}

TEST_CASE("an object is shown as long as its registration lives, under a name of its own", "[metrics]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  auto exporter = std::make_unique<metrics::exporter>();
  {
    const auto shown = exporter->add("a", s);
    CHECK(refusal_of([&] { const auto again = exporter->add("a", s); }).find("exporter.add: name is a; allowed:") == 0);
    CHECK_FALSE(refusal_of([&] { const auto nameless = exporter->add("", s); }).empty());
    CHECK_FALSE(exporter->text().empty());
  }
  CHECK(exporter->text().empty());
  auto first = exporter->add("a", s);
  first = exporter->add("b", s);
  CHECK(exporter->text().find("\"a\"") == std::string::npos);
  const auto collectable = exporter->collectable();
  CHECK_FALSE(collectable->Collect().empty());
  exporter.reset();
  {
    const auto last = std::move(first);
  }
  CHECK(collectable->Collect().empty());
}

TEST_CASE("more than 1024 objects are refused", "[metrics]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  metrics::exporter exporter;
  std::vector<metrics::exporter::registration> shown;
  for (int i = 0; i < 1024; ++i) shown.push_back(exporter.add(std::to_string(i), s));
  CHECK(refusal_of([&] { shown.push_back(exporter.add("one more", s)); }).find("exporter.add: objects is 1025") == 0);
}

TEST_CASE("objects come and go while another thread scrapes", "[metrics][threads]") {
  net::io_context io;
  metrics::exporter exporter;
  std::atomic<bool> done{false};
  std::thread scraper{[&] {
    while (!done) (void)exporter.text();
  }};
  for (int i = 0; i < 200; ++i) {
    semaphore s{io, {.permits = 1}};
    const auto shown = exporter.add("s", s);
    (void)s.try_acquire();
  }
  done = true;
  scraper.join();
  CHECK(exporter.text().empty());
}
