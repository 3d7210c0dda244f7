#include "canigo/metrics/exporter.hpp"
#include "canigo/redis/limiter.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"
#include "support/series.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <string>

using namespace redis_test;
using namespace std::chrono_literals;

TEST_CASE("limits in Redis and their connection are shown to Prometheus", "[metrics]") {
  redis_server server;
  drained io;
  member a{io, server.url(), {.permits = 3, .lease = 60s, .horizon = 60s, .quarantine = false}};
  member b{io, server.url(), {.permits = 3, .lease = 60s}};
  redis::scheduler quota{a.client, "crm", {.rate = canigo::rate::per_hour(1)}};
  canigo::metrics::exporter exporter;
  const auto first = exporter.add("slots", a.slots);
  const auto second = exporter.add("quota", quota);
  const auto third = exporter.add("redis", a.client);

  const auto one = run(io, a.slots.acquire({.tokens = 2}));
  run(io, a.slots.acquire()).release();
  const auto kept = run(io, a.slots.acquire());
  waiting w{b.slots, {}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
  CHECK_FALSE(run(io, quota.acquire_now()));
  const std::string text = exporter.text();
  CAPTURE(text);
  CHECK(value_of(text, R"(canigo_requests_total{name="slots",outcome="granted"})") == "3");
  CHECK(value_of(text, R"(canigo_granted_total{name="slots",class="0"})") == "3");
  CHECK(value_of(text, R"(canigo_permits_held{name="slots"})") == "3");
  CHECK(value_of(text, R"(canigo_shared_held{name="slots"})") == "3");
  CHECK(value_of(text, R"(canigo_shared_granted_here_total{name="slots",how="ahead"})") == "1");
  CHECK(value_of(text, R"(canigo_shared_available{name="quota"})") == "1");
  CHECK(value_of(text, R"(canigo_shared_round_trips_total{name="quota"})") == "1");
  CHECK(value_of(text, R"(canigo_shared_round_trip_seconds_count{name="quota"})") == "1");
  CHECK(value_of(text, R"(canigo_shared_lost_leases_total{name="slots"})") == "0");
  CHECK(value_of(text, R"(canigo_client_connects_total{name="redis"})") == "1");
  CHECK(std::stod(*value_of(text, R"(canigo_client_answered_total{name="redis"})")) >= 3);
  b.slots.stop();
  run_until(io, [&] { return w.ended(); });
}

TEST_CASE("a limiter in Redis is shown to Prometheus as its twins are", "[metrics]") {
  redis_server server;
  drained io;
  redis::client client{io, server.url()};
  redis::limiter api{client,
                     "crm",
                     {.rates = {{.rate = canigo::rate::per_second(1'000'000), .burst = 10}},
                      .concurrency = 2,
                      .queue_limit = 1,
                      .on_overflow = canigo::overflow::evict_oldest,
                      .quarantine = false}};
  canigo::metrics::exporter exporter;
  const auto shown = exporter.add("api", api);
  const auto p = run(io, api.acquire());
  waiting out{api, {}}, next{api, {}};
  run_until(io, [&] { return next.ended(); });
  const std::string text = exporter.text();
  CAPTURE(text);
  CHECK(value_of(text, R"(canigo_requests_total{name="api",outcome="granted"})") == "2");
  CHECK(value_of(text, R"(canigo_requests_total{name="api",outcome="evicted"})") == "1");
  CHECK(value_of(text, R"(canigo_permits_held{name="api"})") == "2");
  CHECK(value_of(text, R"(canigo_shared_held{name="api"})") == "2");
  CHECK(value_of(text, R"(canigo_shared_available{name="api"})") == "1");
}

TEST_CASE("what goes wrong with a limit in Redis is shown to Prometheus", "[metrics]") {
  drained io;
  member a{io, "unix:/nonexistent/redis.sock", {.permits = 3}};
  canigo::metrics::exporter exporter;
  const auto shown = exporter.add("slots", a.slots);
  const auto client = exporter.add("redis", a.client);
  waiting w{a.slots, {}};
  run_until(io, [&] { return a.slots.stats().failed_calls > 0; });
  const std::string text = exporter.text();
  CAPTURE(text);
  CHECK(value_of(text, R"(canigo_shared_available{name="slots"})") == "0");
  CHECK(std::stod(*value_of(text, R"(canigo_shared_failed_calls_total{name="slots"})")) >= 1);
  CHECK(value_of(text, R"(canigo_shared_error{name="slots",cause="No such file or directory"})") == "1");
  CHECK(std::stod(*value_of(text, R"(canigo_client_failures_total{name="redis"})")) >= 1);
  a.slots.stop();
  run_until(io, [&] { return w.ended(); });
}

TEST_CASE("a quarantine and lost leases are shown to Prometheus [realtime]", "[metrics][realtime]") {
  redis_server server;
  drained io;
  member a{io, server.url(), {.permits = 3, .lease = 300ms}};
  canigo::metrics::exporter exporter;
  const auto shown = exporter.add("slots", a.slots);
  waiting w{a.slots, {}};
  run_until(io, [&] { return a.slots.stats().round_trips > 0; });
  CHECK(std::stod(*value_of(exporter.text(), R"(canigo_shared_quarantine_seconds{name="slots"})")) > 0);
  run_until(io, [&] { return w.ended(); });
  server.pause();
  run_until(io, [&] { return w.p.held() == 0; });
  CHECK(value_of(exporter.text(), R"(canigo_shared_lost_leases_total{name="slots"})") == "1");
  server.resume();
}
