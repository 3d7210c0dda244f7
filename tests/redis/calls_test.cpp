// What redis::semaphore and redis::scheduler have in common with the limits of one process, besides acquire().
#include "canigo/concepts.hpp"
#include "canigo/error.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/timeout.hpp"
#include "canigo/with_limit.hpp"

#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

using namespace redis_test;
using namespace std::chrono_literals;

static_assert(canigo::limit<redis::scheduler> && canigo::limit<redis::semaphore>);
static_assert(canigo::throughput_limit<redis::scheduler> && canigo::concurrency_limit<redis::semaphore>);
static_assert(canigo::revocable_permit<redis::permit>);

namespace {

const redis::semaphore_options two_places{.permits = 2, .lease = 60s, .priorities = 2, .quarantine = false};
// A token comes in each hour: what is there is what was put there.
const redis::scheduler_options hourly{.rate = rate::per_hour(1), .burst = 10, .priorities = 2};

/// A quota as one process has it.
struct quota {
  quota(net::io_context& io, const std::string& url, const redis::scheduler_options& o = hourly)
      : client{io, url}, tokens{client, "crm", o} {}
  redis::client client;
  redis::scheduler tokens;
};

/// How many can be had at once.
int had(net::io_context& io, redis::scheduler& s) {
  int n = 0;
  while (run(io, s.acquire_now())) ++n;
  return n;
}

/// As run(), for what returns nothing: the error.
std::error_code end_of(net::io_context& io, net::awaitable<void> work) {
  const auto wrapped = [](net::awaitable<void> op) -> net::awaitable<std::error_code> {
    try {
      co_await std::move(op);
    } catch (const std::system_error& e) {
      co_return e.code();
    }
    co_return std::error_code{};
  };
  return run(io, wrapped(std::move(work)));
}

template <class Function>
bool refused(Function f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.code() == errc::invalid_argument;
  }
  return false;
}

}  // namespace

TEST_CASE("acquire_now takes what is there, and does not wait for the rest") {
  auto [server, io, a, b] = two_members<drained>{two_places};
  auto one = run(io, a.slots.acquire_now());
  REQUIRE(one.has_value());
  CHECK(one->held() == 1);
  CHECK(one->token() > 0);
  CHECK_FALSE(run(io, b.slots.acquire_now({.tokens = 2})).has_value());
  const auto two = run(io, b.slots.acquire_now({.priority = 1}));
  CHECK(two.has_value());
  CHECK_FALSE(run(io, a.slots.acquire_now()).has_value());
  CHECK(b.slots.stats().waiting_of_all == 0);
  CHECK(b.slots.stats().requested == 1);  // who was told no has not been here
  one->release();
  CHECK(run(io, b.slots.acquire_now()).has_value());
}

TEST_CASE("acquire_now overtakes nobody") {
  auto [server, io, a, b] = two_members<drained>{two_places};
  auto one = run(io, a.slots.acquire());
  waiting heavy{b.slots, {.priority = 1, .tokens = 2}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
  CHECK_FALSE(run(io, b.slots.acquire_now()).has_value());  // one is free
  CHECK_FALSE(run(io, a.slots.acquire_now()).has_value());
  one.release();
  run_until(io, [&] { return heavy.ended(); });
  CHECK_FALSE(*heavy.ec);
}

TEST_CASE("acquire_now refuses what acquire refuses, and says at once that Redis is not there") {
  drained io;
  redis::client nobody{io, "unix:/nonexistent/redis.sock", {.connect_timeout = 100ms, .timeout = 100ms}};
  redis::semaphore slots{nobody, "crm", two_places};
  const auto ask = [&](canigo::request r) -> net::awaitable<void> { (void)co_await slots.acquire_now(r); };
  CHECK(end_of(io, ask({.priority = 2})) == errc::invalid_priority);
  CHECK(end_of(io, ask({.tokens = 3})) == errc::too_large);
  CHECK(end_of(io, ask({})) == errc::store_unavailable);
  CHECK(end_of(io, ask({})) == errc::store_unavailable);  // it is known by now
  redis::scheduler open{
      nobody, "crm", {.rate = rate::per_hour(1), .burst = 10, .on_failure = redis::failure_mode::open()}};
  CHECK(run(io, open.acquire_now()));
  redis::scheduler share{
      nobody, "crm", {.rate = rate::per_hour(1), .burst = 10, .on_failure = redis::failure_mode::local(0.5)}};
  CHECK_FALSE(run(io, share.acquire_now()));
}

TEST_CASE("without a horizon there is nothing to take without Redis") {
  redis_server server;
  drained io;
  member a{io, server.url(), two_places};
  quota q{io, server.url()};
  run(io, a.slots.acquire()).release();
  q.tokens.refund(5);
  CHECK_FALSE(a.slots.try_acquire().has_value());
  CHECK_FALSE(q.tokens.try_acquire());
  CHECK_THROWS_AS(q.tokens.try_acquire({.priority = 7}), std::system_error);
  CHECK_THROWS_AS(a.slots.try_acquire({.tokens = 3}), std::system_error);
}

TEST_CASE("tokens that are given back and charged are everybody's") {
  redis_server server;
  drained io;
  quota a{io, server.url()};
  quota b{io, server.url()};
  CHECK(had(io, a.tokens) == 0);
  a.tokens.refund(4);
  run_until(io, [&] { return a.tokens.stats().round_trips >= 2; });
  CHECK(had(io, b.tokens) == 4);
  b.tokens.refund(6);
  b.tokens.charge(2);
  run_until(io, [&] { return b.tokens.stats().round_trips > 5; });
  CHECK(had(io, a.tokens) == 4);
  CHECK(refused([&] { a.tokens.charge((std::uint64_t{1} << 31) + 1); }));
}

TEST_CASE("a quota is changed for all processes") {
  redis_server server;
  drained io;
  quota a{io, server.url()};
  quota b{io, server.url()};
  CHECK(had(io, a.tokens) == 0);
  CHECK(had(io, b.tokens) == 0);
  a.tokens.set_burst(20);
  a.tokens.refund(15);
  const auto calls = a.tokens.stats().round_trips;
  run_until(io, [&] { return a.tokens.stats().round_trips > calls; });
  CHECK(had(io, b.tokens) == 15);
  // Whoever waits in another process has it by the new rate.
  std::optional<std::error_code> ended;
  b.tokens.async_acquire({}, [&](std::error_code ec) { ended = ec; });
  run_until(io, [&] { return b.tokens.stats().waiting_of_all == 1; });
  CHECK(b.tokens.estimate({}) > 1h);
  a.tokens.set_rate(rate::per_second(1000));
  run_until(io, [&] { return ended.has_value(); });
  CHECK_FALSE(*ended);
  CHECK(refused([&] { a.tokens.set_burst(0); }));
  CHECK(refused([&] { a.tokens.set_burst((std::uint64_t{1} << 31) + 1); }));
  a.tokens.set_rate(rate{1, 24h * 3650});
  CHECK(refused([&] { a.tokens.set_burst(2'000'000'000); }));
}

TEST_CASE("what is changed here stands, whatever answer is on its way") {
  // After any number of steps of an exchange that brings what another process has changed.
  for (int steps = 0; steps < 24; ++steps) {
    redis_server server;
    drained io;
    quota a{io, server.url()};
    quota b{io, server.url()};
    member c{io, server.url(), two_places};
    member d{io, server.url(), two_places};
    CHECK(had(io, b.tokens) == 0);
    run(io, d.slots.acquire()).release();
    a.tokens.set_rate(rate::per_hour(2));
    a.tokens.set_burst(30);
    a.tokens.pause();
    c.slots.resize(5);
    run_until(io, [&] { return a.tokens.stats().round_trips > 0 && c.slots.stats().round_trips > 0; });
    b.tokens.refund(1);
    waiting w{d.slots, {}};
    for (int i = 0; i < steps; ++i) io.poll_one();
    b.tokens.set_rate(rate::per_second(1000));
    b.tokens.set_burst(10);
    b.tokens.resume();
    d.slots.resize(2);
    CHECK_FALSE(end_of(io, b.tokens.acquire({.tokens = 10})));
    CHECK(end_of(io, b.tokens.acquire({.tokens = 11})) == errc::too_large);
    run_until(io, [&] { return w.ended(); });
    CHECK(error_of(io, d.slots.acquire({.tokens = 3})) == errc::too_large);
    // The others hear of it.
    CHECK_FALSE(end_of(io, a.tokens.acquire({})));
    CHECK(end_of(io, a.tokens.acquire({.tokens = 11})) == errc::too_large);
  }
}

TEST_CASE("an estimate counts who goes first, and no more than can be waited for") {
  redis_server server;
  drained io;
  quota q{io, server.url()};
  CHECK(q.tokens.estimate({}) == 0s);  // nothing is known yet
  CHECK(had(io, q.tokens) == 0);
  int stopped = 0;
  const auto wait_for = [&](std::uint64_t tokens) {
    q.tokens.async_acquire({.priority = 1, .tokens = tokens},
                           [&](std::error_code ec) { stopped += ec == errc::stopped; });
  };
  wait_for(5);
  CHECK(q.tokens.estimate({.priority = 0}) <= 1h);
  CHECK(q.tokens.estimate({.priority = 1}) > 5h);
  constexpr auto ten_years = 24h * 3650;
  q.tokens.set_rate(rate{1, ten_years});
  wait_for(10);
  wait_for(10);
  wait_for(10);
  CHECK(q.tokens.estimate({.priority = 1}) > 29 * ten_years);  // and not what 35 take: a duration ends before
  q.tokens.stop();
  CHECK_FALSE(q.tokens.try_acquire());
  run_until(io, [&] { return stopped == 4; });
}

TEST_CASE("an estimate counts what has gathered, however young the machine is") {
  redis_server server;
  drained io;
  quota q{io, server.url()};
  CHECK(had(io, q.tokens) == 0);
  q.tokens.refund(10);  // those of ten hours
  const auto calls = q.tokens.stats().round_trips;
  run_until(io, [&] { return q.tokens.stats().round_trips > calls; });
  CHECK(q.tokens.estimate({.tokens = 10}) == 0s);
  CHECK(had(io, q.tokens) == 10);
  CHECK(q.tokens.estimate({}) > 1min);
  CHECK(q.tokens.estimate({}) <= 1h);
}

TEST_CASE("places are changed for all processes") {
  auto [server, io, a, b] = two_members<drained>{two_places};
  const auto one = run(io, a.slots.acquire());
  auto two = run(io, b.slots.acquire());
  waiting third{b.slots, {}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
  a.slots.resize(3);
  run_until(io, [&] { return third.ended(); });
  CHECK(third.p.held() == 1);
  a.slots.resize(1);
  run_until(io, [&] { return !run(io, b.slots.acquire_now()).has_value(); });
  two.release();
  CHECK_FALSE(run(io, b.slots.acquire_now()).has_value());
  CHECK(end_of(io, [](redis::semaphore& s) -> net::awaitable<void> {
          (void)co_await s.acquire({.tokens = 2});
        }(b.slots)) == errc::too_large);
  CHECK(refused([&] { a.slots.resize(0); }));
}

TEST_CASE("a change is told once, and again by one that Redis knows no more") {
  auto [server, io, a, b] = two_members<drained>{two_places};
  redis::client admin{io, server.url()};
  const auto one = run(io, a.slots.acquire());
  run(io, b.slots.acquire()).release();
  const auto told = [&](std::size_t places) {
    a.slots.resize(places);
    const auto calls = a.slots.stats().round_trips;
    run_until(io, [&] { return a.slots.stats().round_trips > calls; });
  };
  told(3);
  const auto calls = a.slots.stats().round_trips;
  for (int i = 0; i < 50; ++i) run(io, admin.run("PING"));
  CHECK(a.slots.stats().round_trips <= calls + 3);
  run(io, admin.run("DEL", "{canigo:default:crm}:s:sess"));
  told(4);
  run_until(io, [&] {
    (void)run(io, b.slots.acquire_now());  // hears of it
    return !error_of(io, b.slots.acquire({.tokens = 4}));
  });
}

TEST_CASE("one process's pause is everybody's") {
  auto [server, io, a, b] = two_members<drained>{two_places};
  run(io, b.slots.acquire()).release();
  a.slots.pause();
  run_until(io, [&] { return a.slots.stats().round_trips == 1; });
  CHECK_FALSE(run(io, b.slots.acquire_now()).has_value());
  waiting w{b.slots, {}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
  a.slots.resume();
  run_until(io, [&] { return w.ended(); });
  CHECK(w.p.held() == 1);
}

TEST_CASE("a pause is over by itself, and who waits knows when [realtime]", "[realtime]") {
  redis_server server;
  drained io;
  quota a{io, server.url()};
  quota b{io, server.url()};
  CHECK(had(io, b.tokens) == 0);
  a.tokens.refund(3);
  const auto begin = steady::now();
  a.tokens.pause_until(begin + 200ms);
  run_until(io, [&] { return a.tokens.stats().round_trips == 1; });
  CHECK(a.tokens.estimate({}) > 100ms);
  CHECK_FALSE(run(io, b.tokens.acquire_now()));
  CHECK_FALSE(end_of(io, b.tokens.acquire({})));
  CHECK(steady::now() - begin >= 200ms);
  CHECK(b.tokens.estimate({}) < 200ms);  // as it was when Redis said it
}

TEST_CASE("an operation is cancelled when the lease of what admitted it is lost [realtime]", "[realtime]") {
  redis_server server;
  drained io;
  member a{io, server.url(), {.permits = 1, .lease = 300ms, .quarantine = false}};
  canigo::strand_pool pool{io, {.concurrency = 2}};
  const auto five = [&]() -> net::awaitable<int> { co_return 5; };
  const auto task = [&]() -> net::awaitable<int> {
    co_return co_await pool.run([&] { return canigo::with_limit(five(), a.slots); });
  };
  CHECK(run(io, task()) == 5);
  CHECK(a.slots.stats().held == 0);
  bool ended = false;
  const auto for_ever = [&]() -> net::awaitable<void> {
    struct guard {
      bool& ended;
      ~guard() { ended = true; }
    } const g{ended};
    co_await canigo::sleep_for(1h);
  };
  const auto held = [&]() -> net::awaitable<void> {
    auto inner = [&]() -> net::awaitable<void> {
      server.pause();
      co_await for_ever();
    };
    co_await canigo::with_limit(inner(), a.slots);
  };
  CHECK(end_of(io, held()) == errc::lease_lost);
  CHECK(ended);
  CHECK(a.slots.stats().lost_leases == 1);
  server.resume();
}
