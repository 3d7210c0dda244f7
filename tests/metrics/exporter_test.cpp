#include "canigo/metrics/exporter.hpp"

#include "canigo/keyed.hpp"
#include "canigo/strand_pool.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/series.hpp"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// What has the stats that it was given.
template <class Stats>
struct stand_in {
  Stats shown;
  Stats stats() const { return shown; }
};

/// The whole value of each series, its name without the labels before it.
void check_series(const std::string& text, std::initializer_list<std::pair<const char*, const char*>> expected) {
  CAPTURE(text);
  for (const auto& [series, value] : expected) {
    CAPTURE(series);
    CHECK(value_of(text, series) == std::string{value});
  }
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
  CHECK(text.find("# HELP canigo_waiting Waiting requests.") != std::string::npos);
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

TEST_CASE("an adaptive limit shows its value, its latencies and why it decided", "[metrics]") {
  limits_run run;
  adaptive_limit l{run.io, {.initial = 4, .algorithm = aimd{.target = 10ms}}};
  metrics::exporter exporter;
  const auto shown = exporter.add("db", l);
  auto held = l.try_acquire();
  l.try_acquire()->release();
  l.try_acquire()->cancelled();
  check_series(exporter.text(), {{R"(canigo_adaptive_decision{name="db",reason="none"})", "1"},
                                 {R"(canigo_permits_held{name="db"})", "1"},
                                 {R"(canigo_permits_capacity{name="db"})", "4"},
                                 {R"(canigo_adaptive_baseline_seconds{name="db"})", "0.01"},
                                 {R"(canigo_adaptive_latency_seconds{name="db"})", "0"},
                                 {R"(canigo_adaptive_calls_total{name="db",outcome="given_up"})", "1"},
                                 {R"(canigo_adaptive_calls_total{name="db",outcome="unreported"})", "1"}});
  for (int i = 0; i < 50; ++i) {
    run.time.run_for(3ms);
    l.try_acquire()->dropped();
  }
  held->succeeded();
  check_series(exporter.text(), {{R"(canigo_adaptive_decision{name="db",reason="dropped"})", "1"},
                                 {R"(canigo_permits_capacity{name="db"})", "3"},
                                 {R"(canigo_adaptive_calls_total{name="db",outcome="dropped"})", "50"},
                                 {R"(canigo_adaptive_calls_total{name="db",outcome="succeeded"})", "1"},
                                 {R"(canigo_granted_total{name="db",class="0"})", "53"}});
}

TEST_CASE("a policy shows its calls and its parts under one name", "[metrics]") {
  limits_run run;
  policy p{run.io, {.breaker = circuit_breaker_options{}, .limits = limiter_options{.concurrency = 3}}};
  metrics::exporter exporter;
  const auto shown = exporter.add("crm", p);
  run.go([&]() -> net::awaitable<void> { co_await p.run([] { return sleep_for(2s); }); });
  run.go([&]() -> net::awaitable<void> { co_await p.run([] { return sleep_for(1h); }); });
  run.time.run_for(3s);
  check_series(exporter.text(), {{R"(canigo_policy_calls_total{name="crm",outcome="succeeded"})", "1"},
                                 {R"(canigo_policy_calls_total{name="crm",outcome="circuit_open"})", "0"},
                                 {R"(canigo_policy_under_way{name="crm"})", "1"},
                                 {R"(canigo_policy_operations_total{name="crm"})", "1"},
                                 {R"(canigo_policy_call_seconds_count{name="crm"})", "1"},
                                 {R"(canigo_permits_held{name="crm"})", "1"},
                                 {R"(canigo_circuit_calls_total{name="crm",outcome="succeeded"})", "1"}});
  run.time.run();
}

TEST_CASE("a circuit breaker shows its state and how calls ended", "[metrics]") {
  limits_run run;
  circuit_breaker b{run.io, {.least_calls = 4, .slow = 1s, .mode = enforcement::shadow}};
  metrics::exporter exporter;
  const auto shown = exporter.add("crm", b);
  auto slow = b.enter();
  run.time.run_for(2s);
  slow.succeeded();
  for (int i = 0; i < 2; ++i) b.enter().failed();
  (void)b.enter();
  check_series(exporter.text(), {{R"(canigo_circuit_state{name="crm",state="closed"})", "1"},
                                 {R"(canigo_circuit_state{name="crm",state="open"})", "0"},
                                 {R"(canigo_circuit_counted{name="crm",kind="all"})", "3"},
                                 {R"(canigo_circuit_counted{name="crm",kind="failed"})", "2"},
                                 {R"(canigo_circuit_counted{name="crm",kind="slow"})", "1"},
                                 {R"(canigo_circuit_calls_total{name="crm",outcome="succeeded"})", "1"},
                                 {R"(canigo_circuit_calls_total{name="crm",outcome="failed"})", "2"},
                                 {R"(canigo_circuit_calls_total{name="crm",outcome="unreported"})", "1"},
                                 {R"(canigo_circuit_calls_total{name="crm",outcome="refused"})", "0"},
                                 {R"(canigo_circuit_slow_total{name="crm"})", "1"},
                                 {R"(canigo_circuit_opened_total{name="crm"})", "0"}});
  b.enter().failed();
  (void)b.enter();
  b.set_mode(enforcement::enforce);
  (void)b.try_enter();
  check_series(exporter.text(), {{R"(canigo_circuit_state{name="crm",state="closed"})", "0"},
                                 {R"(canigo_circuit_state{name="crm",state="open"})", "1"},
                                 {R"(canigo_circuit_would_refuse_total{name="crm"})", "1"},
                                 {R"(canigo_circuit_calls_total{name="crm",outcome="refused"})", "1"},
                                 {R"(canigo_circuit_opened_total{name="crm"})", "1"}});
}

TEST_CASE("a limiter shows for how long each of its limits was binding", "[metrics]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 1, 1}, {rate::per_second(1), 5, 5}}, .concurrency = 1}};
  metrics::exporter exporter;
  const auto shown = exporter.add("api", l);
  std::optional<permit> p = l.try_acquire();
  run.go([&]() -> net::awaitable<void> { const permit q = co_await l.acquire(); });
  run.time.run_for(40ms);
  p.reset();
  run.time.run_for(1s);
  const auto text = exporter.text();
  check_series(text, {{R"(canigo_binding_seconds_total{name="api",limit="concurrency"})", "0.04"},
                      {R"(canigo_binding_seconds_total{name="api",limit="rate 0"})", "0.06"},
                      {R"(canigo_binding_seconds_total{name="api",limit="rate 1"})", "0"},
                      {R"(canigo_binding_seconds_total{name="api",limit="share"})", "0"},
                      {R"(canigo_binding_seconds_total{name="api",limit="paused"})", "0"}});
  CHECK(text.find("# HELP canigo_binding_seconds_total Time for which the first waiter waited") != std::string::npos);
}

TEST_CASE("a pool shows its workers, its tasks and each name", "[metrics]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 2}};
  metrics::exporter exporter;
  const auto shown = exporter.add("jobs", pool);
  for (int i = 0; i < 5; ++i) (void)pool.try_post([] { return sleep_for(100ms); }, {.name = "resize"});
  (void)pool.try_post([] { throw std::runtime_error{"x"}; }, {.name = "broken"});
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

TEST_CASE("every count of a pool is shown", "[metrics]") {
  stand_in<pool_stats> pool;
  pool_stats& s = pool.shown;
  s.working = 1;
  s.sleeping = 2;
  s.repairing = 3;
  s.queued = 4;
  s.delayed = 5;
  s.held_back = 6;
  s.resources = 7;
  s.oldest_wait = 1500ms;
  s.submitted = 8;
  s.succeeded = 9;
  s.failed = 10;
  s.cancelled = 11;
  s.timed_out = 12;
  s.stopped = 13;
  s.rejected = 14;
  s.evicted = 15;
  s.retries = 16;
  s.restarts = 17;
  s.overdue_total = 18;
  s.overdue.resize(2);
  s.names.resize(70);
  for (auto& n : s.names) {
    n.name = "n" + std::to_string(&n - s.names.data());
    n.succeeded = 1;
    n.failed = 2;
    n.waited.record(1s);
    n.ran.record(2s);
  }
  metrics::exporter exporter;
  const auto shown = exporter.add("p", pool);
  check_series(exporter.text(), {
                                    {R"(canigo_pool_workers{name="p",state="working"})", "1"},
                                    {R"(canigo_pool_workers{name="p",state="sleeping"})", "2"},
                                    {R"(canigo_pool_workers{name="p",state="repairing"})", "3"},
                                    {R"(canigo_pool_tasks{name="p",state="queued"})", "4"},
                                    {R"(canigo_pool_tasks{name="p",state="delayed"})", "5"},
                                    {R"(canigo_pool_tasks{name="p",state="held_back"})", "6"},
                                    {R"(canigo_pool_resources{name="p"})", "7"},
                                    {R"(canigo_pool_oldest_wait_seconds{name="p"})", "1.5"},
                                    {R"(canigo_pool_overdue{name="p"})", "2"},
                                    {R"(canigo_pool_submitted_total{name="p"})", "8"},
                                    {R"(canigo_pool_processed_total{name="p",outcome="succeeded"})", "9"},
                                    {R"(canigo_pool_processed_total{name="p",outcome="failed"})", "10"},
                                    {R"(canigo_pool_processed_total{name="p",outcome="cancelled"})", "11"},
                                    {R"(canigo_pool_processed_total{name="p",outcome="timed_out"})", "12"},
                                    {R"(canigo_pool_processed_total{name="p",outcome="stopped"})", "13"},
                                    {R"(canigo_pool_rejected_total{name="p"})", "14"},
                                    {R"(canigo_pool_evicted_total{name="p"})", "15"},
                                    {R"(canigo_pool_retries_total{name="p"})", "16"},
                                    {R"(canigo_pool_restarts_total{name="p"})", "17"},
                                    {R"(canigo_pool_overdue_total{name="p"})", "18"},
                                    {R"(canigo_pool_attempts_total{name="p",task="n63",outcome="succeeded"})", "1"},
                                    {R"(canigo_pool_wait_seconds_sum{name="p",task="n63"})", "1"},
                                    {R"(canigo_pool_attempts_total{name="p",task="other",outcome="succeeded"})", "6"},
                                    {R"(canigo_pool_attempts_total{name="p",task="other",outcome="failed"})", "12"},
                                    {R"(canigo_pool_wait_seconds_count{name="p",task="other"})", "6"},
                                    {R"(canigo_pool_wait_seconds_sum{name="p",task="other"})", "6"},
                                    {R"(canigo_pool_run_seconds_count{name="p",task="other"})", "6"},
                                    {R"(canigo_pool_run_seconds_sum{name="p",task="other"})", "12"},
                                });
}

TEST_CASE("every count of a limit in Redis, and of its connection, is shown", "[metrics]") {
  stand_in<metrics::shared_limit_stats> limit;
  metrics::shared_limit_stats& s = limit.shown;
  s.available = false;
  s.granted = 1;
  s.cancelled = 2;
  s.timed_out = 3;
  s.evicted = 4;
  s.rejected = 5;
  s.stopped = 6;
  s.classes.resize(18);
  for (auto& c : s.classes) {
    c.waiting = 1;
    c.granted = 2;
    c.wait.record(1s);
  }
  s.held = 7;
  s.idle = 8;
  s.held_by_all = 9;
  s.waiting_of_all = 10;
  s.round_trips = 11;
  s.failed_calls = 12;
  s.lost_leases = 13;
  s.granted_ahead = 14;
  s.granted_locally = 15;
  s.quarantine = 2500ms;
  s.round_trip.record(3s);
  const stand_in<metrics::connection_stats> client{{1, 2, 3, 4, 5, 6}};
  metrics::exporter exporter;
  const auto first = exporter.add("l", limit);
  const auto second = exporter.add("c", client);
  check_series(exporter.text(), {
                                    {R"(canigo_requests_total{name="l",outcome="granted"})", "1"},
                                    {R"(canigo_requests_total{name="l",outcome="cancelled"})", "2"},
                                    {R"(canigo_requests_total{name="l",outcome="timed_out"})", "3"},
                                    {R"(canigo_requests_total{name="l",outcome="evicted"})", "4"},
                                    {R"(canigo_requests_total{name="l",outcome="rejected"})", "5"},
                                    {R"(canigo_requests_total{name="l",outcome="stopped"})", "6"},
                                    {R"(canigo_waiting{name="l",class="14"})", "1"},
                                    {R"(canigo_waiting{name="l",class="other"})", "3"},
                                    {R"(canigo_granted_total{name="l",class="other"})", "6"},
                                    {R"(canigo_wait_seconds_sum{name="l",class="other"})", "3"},
                                    {R"(canigo_permits_held{name="l"})", "7"},
                                    {R"(canigo_shared_idle{name="l"})", "8"},
                                    {R"(canigo_shared_held{name="l"})", "9"},
                                    {R"(canigo_shared_waiting{name="l"})", "10"},
                                    {R"(canigo_shared_available{name="l"})", "0"},
                                    {R"(canigo_shared_round_trips_total{name="l"})", "11"},
                                    {R"(canigo_shared_failed_calls_total{name="l"})", "12"},
                                    {R"(canigo_shared_lost_leases_total{name="l"})", "13"},
                                    {R"(canigo_shared_granted_here_total{name="l",how="ahead"})", "14"},
                                    {R"(canigo_shared_granted_here_total{name="l",how="alone"})", "15"},
                                    {R"(canigo_shared_quarantine_seconds{name="l"})", "2.5"},
                                    {R"(canigo_shared_round_trip_seconds_sum{name="l"})", "3"},
                                    {R"(canigo_client_waiting{name="c"})", "1"},
                                    {R"(canigo_client_in_flight{name="c"})", "2"},
                                    {R"(canigo_client_sent_total{name="c"})", "3"},
                                    {R"(canigo_client_answered_total{name="c"})", "4"},
                                    {R"(canigo_client_connects_total{name="c"})", "5"},
                                    {R"(canigo_client_failures_total{name="c"})", "6"},
                                });
}

TEST_CASE("every count of an HTTP client is shown", "[metrics]") {
  const stand_in<metrics::http_stats> client{{1, 2, 3}};
  metrics::exporter exporter;
  const auto shown = exporter.add("h", client);
  check_series(exporter.text(), {{R"(canigo_http_waiting{name="h"})", "1"},
                                 {R"(canigo_http_running{name="h"})", "2"},
                                 {R"(canigo_http_finished_total{name="h"})", "3"}});
}

namespace {

/// What has the stats of a jobs::service, which is of another edge.
struct service_stand_in {
  struct count {
    std::size_t by_state[5] = {1, 2, 3, 4, 5};
    duration oldest = 1500ms;
    bool is_paused = true;
  };
  struct queue_stats {
    std::string queue;
    std::size_t running = 6;
    std::uint64_t claimed = 7, done = 8, failed = 9, discarded = 10, snoozed = 11, given_back = 12, lost = 13;
    std::optional<count> in_store = {};
  };
  struct all {
    std::vector<queue_stats> queues;
    std::uint64_t store_failures = 14;
    std::string last_error = "the place and what to do";
    std::error_code last_error_code = std::make_error_code(std::errc::no_space_on_device);
  };
  all stats() const { return {{{.queue = "mail", .in_store = count{}}, {.queue = "new"}}}; }
};

}  // namespace

TEST_CASE("a service of durable jobs shows its queues, and those of the store once it knows them", "[metrics]") {
  const service_stand_in service;
  metrics::exporter exporter;
  const auto shown = exporter.add("j", service);
  check_series(exporter.text(), {{R"(canigo_jobs{name="j",queue="mail",state="waiting"})", "1"},
                                 {R"(canigo_jobs{name="j",queue="mail",state="running"})", "2"},
                                 {R"(canigo_jobs{name="j",queue="mail",state="done"})", "3"},
                                 {R"(canigo_jobs{name="j",queue="mail",state="dead"})", "4"},
                                 {R"(canigo_jobs{name="j",queue="mail",state="cancelled"})", "5"},
                                 {R"(canigo_jobs_oldest_seconds{name="j",queue="mail"})", "1.5"},
                                 {R"(canigo_jobs_paused{name="j",queue="mail"})", "1"},
                                 {R"(canigo_jobs_running{name="j",queue="mail"})", "6"},
                                 {R"(canigo_jobs_attempts_total{name="j",queue="mail"})", "7"},
                                 {R"(canigo_jobs_runs_total{name="j",queue="mail",outcome="done"})", "8"},
                                 {R"(canigo_jobs_runs_total{name="j",queue="mail",outcome="failed"})", "9"},
                                 {R"(canigo_jobs_runs_total{name="j",queue="mail",outcome="discarded"})", "10"},
                                 {R"(canigo_jobs_runs_total{name="j",queue="mail",outcome="snoozed"})", "11"},
                                 {R"(canigo_jobs_runs_total{name="j",queue="mail",outcome="given_back"})", "12"},
                                 {R"(canigo_jobs_runs_total{name="j",queue="mail",outcome="lost"})", "13"},
                                 {R"(canigo_jobs_runs_total{name="j",queue="new",outcome="done"})", "8"},
                                 {R"(canigo_jobs_store_error{name="j",cause="No space left on device"})", "1"},
                                 {R"(canigo_jobs_store_failures_total{name="j"})", "14"}});
  CHECK(count_of(exporter.text(), "canigo_jobs{name=\"j\",queue=\"new\"") == 0);
}

TEST_CASE("a flow shows its share, its ceiling and how long its requests waited", "[metrics]") {
  limits_run run;
  limiter api{run.io, {.rates = {{rate::per_second(10), 20, 20}}, .concurrency = 9}};
  const rate_limit own{rate::per_second(9), 20, 20};
  flow gold{api, {.weight = 3, .rates = {own}, .concurrency = 2, .queue_limit = 2, .times_waits = true}}, plain{api};
  metrics::exporter exporter;
  const auto first = exporter.add("gold", gold);
  const auto second = exporter.add("plain", plain);
  const auto third = exporter.add("api", api);
  for (int i = 0; i < 5; ++i) {
    run.go([&]() -> net::awaitable<void> {
      std::error_code refused;
      const permit p = co_await api.acquire({.tokens = 4, .flow = &gold}, refused);
      if (!refused) co_await sleep_for(500ms);
    });
  }
  run.time.run_for(10ms);
  check_series(exporter.text(), {{R"(canigo_flow_waiting{name="gold"})", "2"},
                                 {R"(canigo_flow_held{name="gold"})", "2"},
                                 {R"(canigo_flow_weight{name="gold"})", "3"},
                                 {R"(canigo_flow_held_back{name="gold"})", "1"},
                                 {R"(canigo_flow_granted_total{name="gold"})", "2"},
                                 {R"(canigo_flow_tokens_total{name="gold"})", "8"},
                                 {R"(canigo_flow_failed_total{name="gold"})", "1"},
                                 {R"(canigo_flow_tokens{name="gold",rate="0"})", "12"},
                                 {R"(canigo_rejected_total{name="api",cause="queue_full"})", "1"},
                                 {R"(canigo_rejected_total{name="api",cause="too_large"})", "0"},
                                 {R"(canigo_flow_wait_seconds_count{name="gold"})", "2"},
                                 {R"(canigo_flow_wait_seconds_sum{name="gold"})", "0"},
                                 {R"(canigo_flow_held_back{name="plain"})", "0"}});
  run.time.run_for(500ms);
  const std::string text = exporter.text();
  check_series(text, {{R"(canigo_flow_wait_seconds_count{name="gold"})", "4"},
                      {R"(canigo_flow_wait_seconds_sum{name="gold"})", "1"},
                      {R"(canigo_flow_wait_seconds_bucket{name="gold",le="0.268435456"})", "2"}});
  CHECK_FALSE(value_of(text, R"(canigo_flow_wait_seconds_count{name="plain"})"));
  run.time.run();
}

TEST_CASE("a flow shows each of its rates, and no others", "[metrics]") {
  limits_run run;
  limiter api{run.io, {.rates = {{rate::per_second(10), 20, 20}, {rate::per_minute(100), 100, 100}}}};
  flow gold{api, {.rates = {{rate::per_second(9), 5, 5}, {rate::per_minute(50), 40, 40}}}}, plain{api};
  metrics::exporter exporter;
  const auto first = exporter.add("gold", gold);
  const auto second = exporter.add("plain", plain);
  const std::string text = exporter.text();
  check_series(text, {{R"(canigo_flow_tokens{name="gold",rate="0"})", "5"},
                      {R"(canigo_flow_tokens{name="gold",rate="1"})", "40"}});
  CHECK(count_of(text, "canigo_flow_tokens{name=\"gold\"") == 2);
  CHECK(count_of(text, "canigo_flow_tokens{name=\"plain\"") == 0);
}

TEST_CASE("each kind of limit shows what went in shadow mode", "[metrics]") {
  limits_run run;
  scheduler first{run.io, {.rate = rate::per_second(4)}};
  semaphore second{run.io, {.permits = 1}};
  limiter third{run.io, {.concurrency = 1}};
  metrics::exporter exporter;
  const auto shows_first = exporter.add("first", first);
  const auto shows_second = exporter.add("second", second);
  const auto shows_third = exporter.add("third", third);
  first.set_mode(enforcement::shadow);
  second.set_mode(enforcement::shadow);
  third.set_mode(enforcement::shadow);
  // Two of the scheduler would have waited. Of three of the others the first goes, and the second would have waited.
  // The last of each would have been refused.
  for (int i = 0; i < 2; ++i) {
    run.go([&]() -> net::awaitable<void> { co_await first.acquire(); });
  }
  const auto hold = [&](auto& limit) -> net::awaitable<void> {
    const permit p = co_await limit.acquire();
    co_await sleep_for(250ms);
  };
  for (int i = 0; i < 2; ++i) {
    run.go([&] { return hold(second); });
    run.go([&] { return hold(third); });
  }
  run.time.run_for(1ms);
  CHECK(first.try_acquire());
  const std::optional<permit> of_second = second.try_acquire(), of_third = third.try_acquire();
  CHECK((of_second && of_third));
  run.time.run_for(1s);
  const std::string text = exporter.text();
  CAPTURE(text);
  for (const std::string name : {"first", "second", "third"}) {
    const auto value = [&](const std::string& series, const std::string& more) {
      return value_of(text, "canigo_shadow_" + series + "{name=\"" + name + "\"" + more + "}");
    };
    CAPTURE(name);
    CHECK(value("total", ",outcome=\"waited\"") == (name == "first" ? "2" : "1"));
    CHECK(value("total", ",outcome=\"refused\"") == "1");
    CHECK(value("total", ",outcome=\"shed\"") == "0");
    CHECK(value("wait_seconds_count", "") == (name == "first" ? "2" : "1"));
    CHECK(value("wait_seconds_sum", "") == (name == "first" ? "0.75" : "0.25"));
  }
}

TEST_CASE("a limiter shows for how long the ceilings of its flows were binding", "[metrics]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 10, 10}}, .concurrency = 5}};
  flow f{l, {.concurrency = 1}};
  metrics::exporter exporter;
  const auto shown = exporter.add("l", l);
  for (int i = 0; i < 2; ++i) {
    run.go([&]() -> net::awaitable<void> {
      const permit p = co_await l.acquire({.flow = &f});
      co_await sleep_for(500ms);
    });
  }
  run.time.run();
  const std::string text = exporter.text();
  check_series(text, {{R"(canigo_binding_seconds_total{name="l",limit="flow"})", "0.5"},
                      {R"(canigo_binding_seconds_total{name="l",limit="rate 0"})", "0"},
                      {R"(canigo_binding_seconds_total{name="l",limit="sublimit"})", "0"},
                      {R"(canigo_binding_seconds_total{name="l",limit="concurrency"})", "0"}});
  CHECK(count_of(text, "canigo_binding_seconds_total{") == 7);
}

namespace {

struct stats_with_error : metrics::shared_limit_stats {
  std::error_code last_error_code;
};

}  // namespace

TEST_CASE("a limit in Redis shows an error only while there is one", "[metrics]") {
  stand_in<stats_with_error> well, ill;
  ill.shown.last_error_code = errc::store_unavailable;
  metrics::exporter exporter;
  const auto first = exporter.add("well", well);
  const auto second = exporter.add("ill", ill);
  const std::string text = exporter.text();
  const std::string cause = make_error_code(errc::store_unavailable).message();
  CHECK(value_of(text, R"(canigo_shared_error{name="ill",cause=")" + cause + "\"}") == "1");
  CHECK(count_of(text, "canigo_shared_error{") == 1);
}

TEST_CASE("a policy shows its adaptive limit under a name of its own", "[metrics]") {
  limits_run run;
  policy p{run.io, {.adaptive = adaptive_limit_options{.initial = 4}, .limits = limiter_options{.concurrency = 3}}};
  metrics::exporter exporter;
  const auto shown = exporter.add("crm", p);
  check_series(exporter.text(), {{R"(canigo_permits_capacity{name="crm.adaptive"})", "4"},
                                 {R"(canigo_permits_capacity{name="crm"})", "3"}});
}

TEST_CASE("a histogram has fifteen edges, each four times the one before", "[metrics]") {
  stand_in<metrics::shared_limit_stats> limit;
  limit.shown.round_trip.record(1s);
  metrics::exporter exporter;
  const auto shown = exporter.add("l", limit);
  const std::string text = exporter.text();
  CAPTURE(text);
  check_series(text, {{R"(canigo_shared_round_trip_seconds_bucket{name="l",le="1.024e-06"})", "0"},
                      {R"(canigo_shared_round_trip_seconds_bucket{name="l",le="274.877906944"})", "1"},
                      {R"(canigo_shared_round_trip_seconds_bucket{name="l",le="+Inf"})", "1"}});
  CHECK(count_of(text, "canigo_shared_round_trip_seconds_bucket{") == 16);
}

TEST_CASE("the number of series is bounded, whatever the classes and names", "[metrics]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .priorities = 1024}};
  strand_pool pool{run.io, {.concurrency = 1}};
  metrics::exporter exporter;
  const auto shown = exporter.add("s", s);
  const auto jobs = exporter.add("pool", pool);
  for (int i = 0; i < 1024; ++i) (void)s.try_acquire({.priority = i});
  for (int i = 0; i < 200; ++i) {
    const std::string name = "task " + std::to_string(i);
    (void)pool.try_post([] {}, {.name = name});
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
  CHECK(s.try_acquire({.priority = 15}));
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

TEST_CASE("keyed limits and the lag of a loop are shown", "[metrics]") {
  stand_in<keyed_stats> keyed;
  keyed.shown = {.keys = 1,
                 .most_keys = 10,
                 .keys_with_waiters = 2,
                 .waiting = 3,
                 .granted = 4,
                 .refused = 5,
                 .given_up = 6,
                 .beyond = 7,
                 .forgotten = 8,
                 .bytes = 9};
  limits_run run;
  keyed_scheduler<std::string> per_client{run.io, {.rate = rate::per_second(1)}};
  CHECK(per_client.try_acquire("a"));
  loop_lag lag{run.io};
  metrics::exporter exporter;
  const auto shown = exporter.add("k", keyed);
  const auto shown_clients = exporter.add("clients", per_client);
  const auto shown_lag = exporter.add("loop", lag);
  run.time.run_for(1s);
  check_series(exporter.text(), {
                                    {R"(canigo_keyed_keys{name="k"})", "1"},
                                    {R"(canigo_keyed_capacity{name="k"})", "10"},
                                    {R"(canigo_keyed_keys_with_waiters{name="k"})", "2"},
                                    {R"(canigo_keyed_waiting{name="k"})", "3"},
                                    {R"(canigo_keyed_requests_total{name="k",outcome="granted"})", "4"},
                                    {R"(canigo_keyed_requests_total{name="k",outcome="refused"})", "5"},
                                    {R"(canigo_keyed_requests_total{name="k",outcome="given_up"})", "6"},
                                    {R"(canigo_keyed_beyond_total{name="k"})", "7"},
                                    {R"(canigo_keyed_forgotten_total{name="k"})", "8"},
                                    {R"(canigo_keyed_bytes{name="k"})", "9"},
                                    {R"(canigo_keyed_keys{name="clients"})", "1"},
                                    {R"(canigo_loop_lag_seconds_count{name="loop"})", "10"},
                                    {R"(canigo_loop_lag_seconds_sum{name="loop"})", "0"},
                                    {R"(canigo_loop_overloaded{name="loop"})", "0"},
                                    {R"(canigo_loop_overloads_total{name="loop"})", "0"},
                                });
}
