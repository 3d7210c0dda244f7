// redis::limiter: several rates, units and a cap in one step, by a Redis that is played by hand and by a real one.
#include "canigo/redis/limiter.hpp"

#include "canigo/concepts.hpp"
#include "canigo/error.hpp"
#include "canigo/limiter.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/timeout.hpp"
#include "canigo/with_limit.hpp"

#include "redis/process.hpp"
#include "redis/scene.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace redis_limiter_test {

using namespace redis_test;
using namespace std::chrono_literals;
using canigo::errc;
using canigo::rate;
using canigo::request;
using ledger_test::call;
using ledger_test::scene;

static_assert(canigo::limit<redis::limiter> && canigo::combined_limit<redis::limiter>);
static_assert(canigo::combined_limit<canigo::limiter> && !canigo::combined_limit<redis::semaphore>);
static_assert(!canigo::concurrency_limit<redis::limiter> && !canigo::throughput_limit<redis::limiter>);
static_assert(canigo::revocable_permit<canigo::grant_of<redis::limiter>>);

/// Ten requests a second, and a hundred tokens.
std::vector<canigo::rate_limit> two_units() {
  return {{.rate = rate::per_second(10), .burst = 10},
          {.rate = rate::per_second(100), .burst = 1000, .unit = "tokens"}};
}

redis::limiter_options patient(std::uint64_t concurrency = canigo::unlimited) {
  return {.rates = two_units(),
          .concurrency = concurrency,
          .lease = 1min,
          .priorities = 2,
          .give_up = 1h,
          .quarantine = false};
}

request tokens(std::uint64_t n) { return {.amounts = {{"tokens", n}}}; }

std::vector<double> without_shape(const call& c) {
  std::vector<double> all = c.further();
  CHECK(all.at(0) >= 1);
  all.erase(all.begin());
  return all;
}

TEST_CASE("redis limiter: a call says all rates and units, and what is wanted, settled and taken back of each") {
  scene s;
  redis::limiter api{s.client, "crm", patient(2)};
  waiting w{api, tokens(120)};
  const call first = s.until_call(1);
  CHECK(first.said.at(3) == "{canigo:default:crm}:l:state");
  CHECK(first.permits() == 2);
  CHECK(first.lists({1, 1, 0, 1, 120}));
  CHECK(without_shape(first) == std::vector<double>{1, 1, 1, 10'000, 1000, 2, 0, 0, 0});
  s.answer({.held = 1, .runs = {{1, 1, 1, 777}}, .is_limiter = true});
  s.until_ended(w);
  REQUIRE_FALSE(*w.ec);
  CHECK(w.p.held() == 1);
  CHECK(w.p.token() == 777);
  CHECK(api.stats().held == 1);
  w.p.settle("tokens", 70);
  w.p.settle(3);
  const call second = s.serve(2, {.held = 1, .is_limiter = true});
  CHECK(second.held() == 1);
  CHECK(second.charged() == 2);
  CHECK(without_shape(second) == std::vector<double>{1, 1, 1, 10'000, 1000, 2, 0, 0, -50});
  // Against what was settled last, in all.
  w.p.settle(1, 200);
  const call third = s.serve(3, {.held = 1, .is_limiter = true});
  CHECK(third.charged() == 2);
  CHECK(without_shape(third) == std::vector<double>{1, 1, 1, 10'000, 1000, 2, 0, -50, 80});
  CHECK_THROWS_WITH(w.p.settle("bytes", 1), Catch::Contains("permit.settle: unit") && Catch::Contains("\"bytes\"") &&
                                                Catch::Contains("\"tokens\""));
  CHECK_THROWS_WITH(w.p.settle(1, (std::uint64_t{1} << 31) + 1), Catch::Contains("0 to 2^31"));
  waiting leaves{api, tokens(9)};
  s.serve(4, {.queue = 1, .held = 1, .is_limiter = true});
  leaves.cancel.emit(net::cancellation_type::total);
  w.p.release();
  const call last = s.serve(5, {.is_limiter = true});
  CHECK(last.held() == 0);
  CHECK(last.lists({2, 1, 9}));
  CHECK(last.charged() == 2);
}

TEST_CASE("redis limiter: without a cap a permit is for settling only, and no lease is kept for it") {
  scene s;
  redis::limiter api{s.client, "crm", patient()};
  waiting w{api, tokens(5)};
  CHECK(s.serve(1, {.runs = {{1, 1, 1, 777}}, .is_limiter = true}).permits() == 0);
  s.until_ended(w);
  CHECK(w.p.held() == 1);
  CHECK(api.stats().held == 1);
  s.time.pass(10min);
  CHECK(s.calls() == 1);
  CHECK(w.p.held() == 1);
  w.p.settle("tokens", 1);
  const call told = s.serve(2, {.is_limiter = true});
  CHECK(told.held() == 0);
  CHECK(without_shape(told).back() == -4);
  CHECK(w.p.release());
  CHECK_FALSE(w.p.release());
  w.p.settle("tokens", 7);  // nothing is held any more
  CHECK(api.stats().held == 0);
  s.settle();
  CHECK(s.calls() == 2);
  CHECK_THROWS_WITH(api.set_concurrency(3), Catch::Contains("made without one"));
}

TEST_CASE("redis limiter: a permit may be settled after its limiter has gone") {
  scene s;
  std::optional<redis::limiter> api{std::in_place, s.client, "crm", patient()};
  waiting w{*api, tokens(5)};
  s.serve(1, {.runs = {{1, 1, 1, 777}}, .is_limiter = true});
  s.until_ended(w);
  api.reset();
  s.settle();
  w.p.settle("tokens", 8);
  const call told = s.serve(2, {.is_limiter = true});
  CHECK(without_shape(told).back() == 3);
  CHECK(told.flags().empty());
  w.p.release();
  CHECK(s.until_call(3).flags() == "l");
}

TEST_CASE("redis limiter: a settlement is told again where an answer is lost, as a total") {
  scene s{{.timeout = 1h}};
  redis::limiter api{s.client, "crm", patient()};
  waiting w{api, tokens(100)};
  s.serve(1, {.runs = {{1, 1, 1, 777}}, .is_limiter = true});
  s.until_ended(w);
  w.p.settle("tokens", 40);
  CHECK(without_shape(s.until_call(2)).back() == -60);
  s.server.say(1, "-BUSY a script runs\r\n");
  run_until(s.time.io, [&] { return !api.stats().available; });
  s.time.pass_until([&] { return s.calls() >= 3; });
  const std::vector<double> again = without_shape(s.until_call(3));
  CHECK(again.at(again.size() - 2) == 0);
  CHECK(again.back() == -60);
}

TEST_CASE("redis limiter: a request for what there can't be is refused with a text, and nothing is asked of Redis") {
  scene s;
  redis::limiter api{s.client, "crm", patient()};
  const auto says = [&](const request& r, errc code, const std::vector<std::string>& parts) {
    const auto [ec, text] = s.refusal(api, r);
    CHECK(ec == code);
    CAPTURE(text);
    for (const auto& part : parts) CHECK(text.find(part) != std::string::npos);
    CHECK_THROWS_AS(api.try_acquire(r), std::system_error);
  };
  says({.amounts = {{"bytes", 1}}}, errc::invalid_argument, {"request.amounts[0].unit", "\"bytes\"", "\"tokens\""});
  says({.amounts = {{"tokens", 1}, {"tokens", 2}}}, errc::invalid_argument, {"request.amounts[1].unit", "again"});
  says({.amounts = {{0, 2}}}, errc::invalid_argument, {"request.amounts[0].unit", "request.tokens"});
  says({.tokens = 11}, errc::too_large, {"request.tokens", "11", "1 to 10"});
  says(tokens(1001), errc::too_large, {"request.amounts[\"tokens\"]", "1001", "0 to 1000"});
  says({.tokens = 0}, errc::invalid_argument, {"request.tokens", "1 or more"});
  says({.priority = 2}, errc::invalid_priority, {});
  CHECK_FALSE(api.try_acquire(tokens(3)));
  s.settle();
  CHECK(s.calls() == 0);
  CHECK(api.stats().rejected == 7);
  CHECK_THROWS_WITH(api.set_rate(2, rate::per_second(1)),
                    Catch::Contains("limiter.set_rate: index") && Catch::Contains("less than 2"));
  CHECK_THROWS_WITH(api.set_burst(1, 0), Catch::Contains("limiter.set_burst: burst"));
  CHECK_THROWS_WITH(api.set_burst(1, std::uint64_t{1} << 32),
                    Catch::Contains("limiter.set_burst: burst is 4294967296") && Catch::Contains("1 to 2147483648"));
  CHECK_THROWS_WITH(api.set_rate(1, rate{1, 24h * 365 * 200}),
                    Catch::Contains("limiter.set_rate: rate") && Catch::Contains("burst of 1000"));
  CHECK_THROWS_AS(api.estimate({.tokens = 11}), std::system_error);
  CHECK_THROWS_AS(api.estimate({.amounts = {{"bytes", 1}}}), std::system_error);
}

TEST_CASE("redis limiter: options out of range are refused with the field, the value and the range") {
  net::io_context io;
  redis::client client{io, "redis://127.0.0.1:1"};
  const auto says = [&](const redis::limiter_options& o, const std::string& field, const std::string& range) {
    CAPTURE(field);
    CHECK_THROWS_WITH((redis::limiter{client, "crm", o}), Catch::Contains(field) && Catch::Contains(range));
  };
  const canigo::rate_limit one{.rate = rate::per_second(1)};
  says({}, "limiter_options.rates.size()", "1 to 16");
  says({.rates = std::vector(17, one)}, "limiter_options.rates.size()", "17");
  says({.rates = {{.rate = rate::per_second(1), .burst = 0}}}, "limiter_options.rates[0].burst", "1 to 2^31");
  says({.rates = {one, {.rate = rate::per_day(1), .burst = std::uint64_t{1} << 31}}}, "limiter_options.rates[1].burst",
       "1 to 104249 at ");
  says({.rates = {{.rate = rate{8589934592, 8589934593ns}, .burst = std::uint64_t{1} << 31}}},
       "limiter_options.rates[0].burst", "1 to 1048 at ");
  says({.rates = {{.rate = rate{3, 9223372036854775807ns}, .burst = 2}}}, "limiter_options.rates[0].burst",
       "Redis can't count exactly");
  says({.rates = {{.rate = rate::per_second(1), .initial_tokens = 1}}}, "limiter_options.rates[0].initial_tokens", "0");
  says({.rates = {{.rate = rate::per_second(1), .window = canigo::rate_window::strict}}},
       "limiter_options.rates[0].window is strict", "average");
  says({.rates = {one}, .concurrency = 0}, "limiter_options.concurrency", "1 to 2^31");
  says({.rates = {one}, .concurrency = 1, .lease = 1ms}, "limiter_options.lease", "10ms");
  says({.rates = {one}, .priorities = 0}, "limiter_options.priorities", "1 to 256");
  says({.rates = {one}, .on_overflow = canigo::overflow::wait}, "limiter_options.on_overflow", "reject_new");
  says({.rates = {one}, .concurrency = 1, .on_failure = redis::failure_mode::open()}, "limiter_options.on_failure",
       "closed");
  says({.rates = {one}, .on_failure = redis::failure_mode::local(2)}, "limiter_options.on_failure: share", "up to 1");
  std::vector<canigo::rate_limit> six;
  for (const char* unit : {"a", "b", "c", "d", "e", "f"}) six.push_back({.rate = rate::per_second(1), .unit = unit});
  says({.rates = six}, "limiter_options.rates[5].unit", "\"f\"");
}

TEST_CASE("redis limiter: while Redis is away a process goes on with its share of every rate, all or none") {
  scene s;
  s.server.set_greeting(loading_greeting);
  redis::limiter_options o = patient();
  o.on_failure = redis::failure_mode::local(0.5);
  redis::limiter api{s.client, "crm", o};
  const auto begin = s.time.clock.now();
  // A half of a hundred tokens a second: fifty of them take one second, and one request takes a fifth.
  waiting w{api, tokens(50)};
  waiting next{api, {.priority = 1}};
  s.time.pass_until([&] { return w.ended(); });
  CHECK_FALSE(*w.ec);
  CHECK(s.time.clock.now() - begin >= 990ms);
  CHECK(s.time.clock.now() - begin < 3s);
  CHECK(w.p.held() == 1);
  w.p.settle("tokens", 1);  // nobody has charged it
  CHECK_FALSE(api.stats().available);
  s.time.pass_until([&] { return next.ended(); });
  CHECK(api.stats().granted_locally == 2);
  CHECK(api.stats().held == 2);
  // Redis is back, and is told of no settlement. It is asked for more than there is a share for.
  s.server.set_greeting(usual_greeting);
  waiting last{api, tokens(500)};
  const auto calls = [&] {
    ledger_test::words said;
    std::size_t count = 0;
    for (std::size_t n = 1; n <= s.server.connections(); ++n) {
      for (const auto& words : s.commands(n)) {
        if (!words.front().starts_with("EVAL")) continue;
        said = words;
        ++count;
      }
    }
    return std::pair{count, said};
  };
  const std::size_t before = calls().first;
  s.time.pass_until([&] { return calls().first > before + 1; });  // one may have been made before
  CHECK(without_shape(call{calls().second}) == std::vector<double>{1, 1, 1, 10'000, 1000, 2, 0, 0, 0});
}

TEST_CASE("a full queue in front of Redis makes room for a newcomer as its options say") {
  using canigo::overflow;
  scene s;
  const auto check = [&](auto& limit, overflow how) {
    waiting a{limit, {.priority = 1}}, b{limit, {.priority = 1}}, c{limit, {}};
    CHECK(limit.stats().waiting == 2);
    waiting& out = how == overflow::evict_oldest ? a : b;
    s.until_ended(out);
    CHECK(*out.ec == errc::evicted);
    waiting d{limit, {.priority = 1}};
    waiting& next_out = how == overflow::evict_oldest ? b : d;
    s.until_ended(next_out);
    CHECK(*next_out.ec == (how == overflow::evict_oldest ? errc::evicted : errc::queue_full));
    CHECK(limit.stats().evicted == (how == overflow::evict_oldest ? 2 : 1));
    CHECK(limit.stats().waiting == 2);
    limit.stop();
    s.until_ended(c);
  };
  for (const overflow how : {overflow::evict_oldest, overflow::evict_least_important}) {
    CAPTURE(static_cast<int>(how));
    redis::limiter_options o = patient();
    o.queue_limit = 2;
    o.on_overflow = how;
    redis::limiter api{s.client, "crm", o};
    check(api, how);
    redis::semaphore slots{s.client, "crm", {.permits = 1, .priorities = 2, .queue_limit = 2, .on_overflow = how}};
    check(slots, how);
  }
}

/// A limiter as one process has it. The rates let everything through unless a test says otherwise.
struct api_member {
  api_member(net::io_context& io, const std::string& url, const redis::limiter_options& o)
      : client{io, url}, api{client, "crm", o} {}
  redis::client client;
  redis::limiter api;
};

redis::limiter_options fast(std::uint64_t concurrency, canigo::duration lease = 1min) {
  return {.rates = {{.rate = rate::per_second(1'000'000), .burst = 10},
                    {.rate = rate::per_second(1'000'000), .burst = 10, .unit = "tokens"}},
          .concurrency = concurrency,
          .lease = lease,
          .quarantine = false};
}

bool is_granted(net::io_context& io, redis::limiter& l, const request& r) {
  return run(io, l.acquire_now(r)).has_value();
}

TEST_CASE("redis limiter: processes share each unit, and what one settles another may have") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), fast(canigo::unlimited)};
  api_member b{io, server.url(), fast(canigo::unlimited)};
  auto p = run(io, a.api.acquire(tokens(10)));
  CHECK(is_granted(io, b.api, tokens(10)));
  // Full, and no more comes in.
  b.api.set_rate(1, rate::per_hour(1));
  p = run(io, b.api.acquire(tokens(10)));
  CHECK_FALSE(is_granted(io, a.api, tokens(1)));
  CHECK(is_granted(io, a.api, {}));
  CHECK(a.api.estimate(tokens(1)) > 30min);
  CHECK(a.api.estimate({}) < 1s);
  p.settle("tokens", 4);
  CHECK(is_granted(io, b.api, tokens(6)));  // the same call tells of both
  CHECK_FALSE(is_granted(io, b.api, tokens(1)));
  CHECK_FALSE(is_granted(io, a.api, tokens(1)));
  CHECK(a.api.estimate(tokens(10)) > 9h);
}

TEST_CASE("redis limiter: a cap and rates admit in one step, and a waiter holds nothing of either") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), fast(1)};
  api_member b{io, server.url(), fast(1)};
  auto p = run(io, a.api.acquire({}));
  CHECK(p.held() == 1);
  b.api.set_rate(1, rate::per_hour(1));
  CHECK_FALSE(is_granted(io, b.api, {}));  // no place
  p.release();
  p = run(io, b.api.acquire(tokens(10)));
  p.release();
  run_until(io, [&] { return b.api.stats().held_by_all == 0; });
  waiting w{a.api, tokens(3)};  // no tokens
  run_until(io, [&] { return a.api.stats().waiting_of_all == 1; });
  CHECK(a.api.stats().held_by_all == 0);
  CHECK_FALSE(w.ended());
  a.api.set_rate(1, rate::per_second(1'000'000));
  run_until(io, [&] { return w.ended(); });
  CHECK_FALSE(*w.ec);
  waiting next{b.api, {}};
  run_until(io, [&] { return b.api.stats().waiting_of_all == 1; });
  w.p.release();
  run_until(io, [&] { return next.ended(); });
  CHECK(next.p.token() > w.p.token());
}

TEST_CASE("redis limiter: code for any limit runs an operation under it") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), fast(1)};
  const auto answer = [&]() -> net::awaitable<int> {
    CHECK(a.api.stats().held == 1);
    co_return 42;
  };
  CHECK(run(io, canigo::with_limit(answer(), a.api, tokens(3))) == 42);
  CHECK(a.api.stats().held == 0);
}

TEST_CASE("redis limiter: other rates or units under the same name are refused while they are in use") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), fast(1)};
  auto p = run(io, a.api.acquire({}));
  redis::limiter_options o = fast(1);
  o.rates[1].unit = "bytes";
  api_member b{io, server.url(), o};
  try {
    auto never = run(io, b.api.acquire({}));
    FAIL("granted");
  } catch (const std::system_error& e) {
    CHECK(e.code() == redis::error::other_shape);
    const std::string text = e.what();
    const std::size_t at = text.find("other rates, units or cap");
    CHECK(at != std::string::npos);
    CHECK(text.find("other rates, units or cap", at + 1) == std::string::npos);
  }
  CHECK(b.api.stats().last_error.find("other rates, units or cap") != std::string::npos);
  CHECK(p.held() == 1);
}

TEST_CASE("redis limiter: a process without the cap of the others is refused in every failure mode") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), fast(1)};
  auto p = run(io, a.api.acquire({}));
  waiting second{a.api, {}};
  for (const auto mode : {redis::failure_mode::closed(), redis::failure_mode::open(), redis::failure_mode::local(1)}) {
    redis::limiter_options o = fast(1);
    o.concurrency = canigo::unlimited;
    o.on_failure = mode;
    api_member b{io, server.url(), o};
    for (int i = 0; i < 3; ++i) CHECK(redis_test::error_of(io, b.api.acquire({})) == redis::error::other_shape);
    CHECK(b.api.stats().granted_locally == 0);
  }
  run_for(io, 100ms);
  CHECK_FALSE(second.ended());
  CHECK(p.held() == 1);
  second.cancel.emit(net::cancellation_type::total);
  run_until(io, [&] { return second.ended(); });
}

TEST_CASE("redis limiter: a request above this process's share ends, and holds up nobody") {
  scene s;
  s.server.set_greeting(loading_greeting);
  redis::limiter_options o = patient();
  o.on_failure = redis::failure_mode::local(0.1);
  redis::limiter api{s.client, "crm", o};
  waiting large{api, {.tokens = 5}};
  waiting w{api, {}};
  s.time.pass_until([&] { return large.ended() && w.ended(); });
  CHECK(*large.ec == errc::store_unavailable);
  CHECK_FALSE(*w.ec);
}

TEST_CASE("redis limiter: a holder that crashes frees its place when its lease ends [realtime]", "[realtime]") {
  redis_server server;
  process holder = ready_process([&](auto ready) {
    net::io_context io;
    api_member m{io, server.url(), fast(1, 300ms)};
    const auto held = run(io, m.api.acquire(tokens(1)));
    ready();
    io.restart();
    io.run();
  });
  drained io;
  api_member b{io, server.url(), fast(1, 300ms)};
  waiting w{b.api, tokens(1)};
  run_until(io, [&] { return b.api.stats().round_trips >= 3; });
  CHECK_FALSE(w.ended());
  holder.kill();
  run_until(io, [&] { return w.ended(); });
  CHECK_FALSE(*w.ec);
}

TEST_CASE("redis limiter: keys that are lost are lost data: the cap holds, and whoever waits is served [realtime]",
          "[realtime]") {
  for (const std::string key : {"state", "sess", "q"}) {
    CAPTURE(key);
    redis_server server;
    drained io;
    api_member a{io, server.url(), fast(1, 1s)};
    api_member b{io, server.url(), fast(1, 1s)};
    auto p = run(io, a.api.acquire(tokens(1)));
    waiting w{b.api, tokens(1)};
    run_until(io, [&] { return b.api.stats().waiting_of_all == 1; });
    CHECK(run(io, b.client.run("DEL", "{canigo:default:crm}:l:" + key)).integer() == 1);
    const auto trips = b.api.stats().round_trips;
    run_until(io, [&] { return b.api.stats().round_trips >= trips + 2; });
    if (p.held() == 1) CHECK_FALSE(w.ended());
    p.release();
    run_until(io, [&] { return w.ended(); });
    CHECK_FALSE(*w.ec);
  }
}

TEST_CASE("redis limiter: a permit whose lease ends is lost, and what it used may still be settled [realtime]",
          "[realtime]") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), fast(1, 200ms)};
  auto p = run(io, a.api.acquire(tokens(4)));
  server.pause();
  run_until(io, [&] { return p.held() == 0; });
  CHECK(a.api.stats().lost_leases == 1);
  p.settle("tokens", 9);
  CHECK_FALSE(p.release());
  server.resume();
  run_until(io, [&] { return a.api.stats().available; });
}

TEST_CASE("redis limiter: a call inside it ends when its lease is lost, with one limit and with several [realtime]",
          "[realtime]") {
  const bool is_alone = GENERATE(true, false);
  CAPTURE(is_alone);
  redis_server server;
  drained io;
  api_member a{io, server.url(), fast(1, 200ms)};
  canigo::semaphore slots{io, {.permits = 1}};
  const auto hangs = [&]() -> net::awaitable<int> {
    server.pause();
    co_await canigo::sleep_for(1h);
    co_return 0;
  };
  net::awaitable<int> call = is_alone ? canigo::with_limit(hangs(), a.api, tokens(4))
                                      : canigo::with_limits(hangs(), std::tie(a.api, slots), tokens(4));
  std::error_code how;
  try {
    run(io, std::move(call));
  } catch (const std::system_error& e) {
    how = e.code();
  }
  CHECK(how == errc::lease_lost);
  server.resume();
  CHECK(run(io, a.api.acquire(tokens(1))).held() == 1);
}

TEST_CASE("redis limiter: a call inside one that is open runs while nobody answers") {
  drained io;
  api_member a{io,
               "unix:/nonexistent/redis.sock",
               {.rates = {{.rate = rate::per_second(10), .burst = 10}},
                .on_failure = redis::failure_mode::open(),
                .give_up = 100ms}};
  const auto answer = []() -> net::awaitable<int> { co_return 42; };
  CHECK(run(io, canigo::with_limit(answer(), a.api)) == 42);
}

}  // namespace redis_limiter_test
