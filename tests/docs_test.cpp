// The code in docs/, compiled and run. The test "docs" fails where a block there is not found word for word here, in
// the examples or in a header.
#include <canigo/adaptive_limit.hpp>
#include <canigo/algorithms/latency_window.hpp>
#include <canigo/cancel.hpp>
#include <canigo/cancel_after.hpp>
#include <canigo/channel.hpp>
#include <canigo/circuit_breaker.hpp>
#include <canigo/flow.hpp>
#include <canigo/gate.hpp>
#include <canigo/hedge.hpp>
#include <canigo/keyed.hpp>
#include <canigo/limiter.hpp>
#include <canigo/loop_lag.hpp>
#include <canigo/policy.hpp>
#include <canigo/retry.hpp>
#include <canigo/scheduler.hpp>
#include <canigo/semaphore.hpp>
#include <canigo/stop_on_signals.hpp>
#include <canigo/strand_pool.hpp>
#include <canigo/task_group.hpp>
#include <canigo/testing/simulation.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>
#include <canigo/wait_group.hpp>
#include <canigo/with_limit.hpp>

#include "support/catch.hpp"

#include <asio.hpp>
#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
namespace net = canigo::net;

namespace {

struct reply {
  int status = 200;
  canigo::duration retry_after = 0s;
  std::uint64_t used = 0;
};

// The far side. Refuses the first calls of a test that wants that.
int refusals = 0;
std::vector<std::string> sent;

net::awaitable<reply> send(std::string url) {
  co_await canigo::sleep_for(10ms);
  sent.push_back(url);
  if (refusals > 0) {
    --refusals;
    co_return reply{.status = 429, .retry_after = 30s};
  }
  co_return reply{.used = 700};
}

void start_over(int refused = 0) {
  sent.clear();
  refusals = refused;
}

// ---- guide.md -----------------------------------------------------------------------------------

constexpr auto rethrow = [](std::exception_ptr error, const auto&...) {
  if (error) std::rethrow_exception(error);
};

using typed = net::io_context::executor_type;

net::awaitable<void, typed> get_typed(canigo::scheduler& quota, std::string& log) {
  co_await quota.async_acquire({.priority = 1}, net::use_awaitable_t<typed>{});
  log = "gone";
}

net::awaitable<reply> get(canigo::scheduler& quota, std::string url, int priority) {
  co_await quota.acquire(priority);
  co_return co_await send(url);
}

net::awaitable<reply> get_soon(canigo::scheduler& quota, std::string url) {
  auto& clock = canigo::time_source::of(co_await net::this_coro::executor);
  const canigo::time_point deadline = clock.now() + 2s;
  co_await quota.acquire({.priority = 0, .deadline = deadline});
  co_return co_await canigo::with_deadline(send(url), deadline);
}

net::awaitable<reply> get_heeding_429(canigo::scheduler& quota, std::string url, int priority) {
  auto& clock = canigo::time_source::of(co_await net::this_coro::executor);
  for (int attempt = 1;; ++attempt) {
    co_await quota.acquire(priority);  // a retry is a call like any other
    reply r = co_await send(url);
    if (r.status != 429 || attempt == 3) co_return r;
    quota.pause_until(clock.now() + r.retry_after);  // for all calls
  }
}

net::awaitable<reply> get_metered(canigo::scheduler& quota, std::string url, std::uint64_t expected) {
  co_await quota.acquire({.tokens = expected});
  reply r = co_await send(url);
  if (r.used > expected) quota.charge(r.used - expected);
  if (r.used < expected) quota.refund(expected - r.used);
  co_return r;
}

net::awaitable<void> worker(canigo::scheduler& quota) {
  try {
    for (;;) {
      co_await quota.acquire();
      co_await send("/next");
    }
  } catch (const std::system_error& e) {
    if (e.code() != canigo::errc::stopped) throw;
  }
}

net::awaitable<int> serve(canigo::scheduler& quota, int priority) {
  if (quota.estimate({.priority = priority}) > 5s) co_return 503;
  co_await quota.acquire(priority);
  co_return 200;
}

std::string summary(const canigo::scheduler& quota) {
  std::string text;
  const canigo::scheduler_stats s = quota.stats();
  for (const canigo::class_stats& c : s.classes) {
    text += fmt::format("{} waiting, {} granted, 99 % of them within {} ms\n", c.waiting, c.granted,
                        c.wait.quantile(0.99) / 1ms);
  }
  return text;
}

net::awaitable<reply> get_limited(canigo::limiter& api, std::string url, int priority) {
  canigo::permit p = co_await api.acquire({.priority = priority, .tokens = 500});
  reply r = co_await send(url);
  p.settle(r.used);  // of 500 tokens; charged or given back
  co_return r;       // and the permit lets the next one in
}

net::awaitable<reply> get_answer(canigo::limiter& model, std::string url, std::uint64_t expected) {
  canigo::permit p = co_await model.acquire({.amounts = {{"tokens", expected}}});  // and one request
  reply r = co_await send(url);
  p.settle("tokens", r.used);
  co_return r;
}

// ---- policies.md --------------------------------------------------------------------------------

net::awaitable<reply> ask_crm(canigo::circuit_breaker& crm, canigo::semaphore& slots, std::string url) {
  const auto call = [](std::string u) -> net::awaitable<reply> {
    reply r = co_await canigo::with_timeout(send(u), 2s);
    if (r.status == 429 || r.status == 503) throw std::system_error{canigo::errc::overloaded};
    co_return r;
  };
  co_return co_await canigo::with_breaker(canigo::with_limit(call(std::move(url)), slots), crm,
                                          [](const reply& r) { return r.status < 500; });
}

net::awaitable<reply> get_through_a_pause(canigo::strand_pool& pool, canigo::scheduler& quota, std::string url,
                                          canigo::time_point deadline) {
  const auto call = [&quota, url](canigo::task_context& t) -> net::awaitable<reply> {
    co_await quota.acquire(t.request());                     // waits until the deadline of the task, if need be
    co_return co_await canigo::with_timeout(send(url), 2s);  // the call alone has two seconds
  };
  co_return co_await pool.run(call, {.deadline = deadline});  // and no timeout
}

canigo::time_point soon() { return canigo::time_point::max(); }

net::awaitable<reply> get_when_free(auto& slots, auto& quota, std::string url) {
  co_return co_await canigo::with_limits(send(url), std::tie(slots, quota), {.priority = 1, .deadline = soon()});
}

// ---- contract.md --------------------------------------------------------------------------------

net::awaitable<void> all_of_scheduler(net::io_context& io) {
  using canigo::rate;
  auto& clock = canigo::time_source::of(io.get_executor());
  auto now = [&] { return clock.now(); };
  auto callback = [](std::error_code) {};
  // [contract]
  canigo::scheduler scheduler{io, {.rate = rate::per_second(5), .burst = 3, .priorities = 3}};
  co_await scheduler.acquire(0);
  co_await scheduler.acquire({.priority = 2, .tokens = 3, .deadline = now() + 2s});
  std::error_code refused;
  co_await scheduler.acquire({.priority = 2}, refused);  // the same, with a code in place of an exception
  scheduler.async_acquire({.priority = 1}, callback);    // or any other completion token
  bool went = scheduler.try_acquire(1);                  // never waits, never overtakes a waiter
  scheduler.refund(2);
  scheduler.charge(5);  // settle what was really used
  scheduler.set_rate(rate{10, 3s});
  scheduler.set_burst(5);  // both re-time everyone who waits, at once
  scheduler.pause();
  scheduler.pause_until(now() + 30s);
  scheduler.resume();
  canigo::duration wait = scheduler.estimate({.priority = 1});
  canigo::scheduler_stats stats = scheduler.stats();
  scheduler.stop();
  // [contract]
  CHECK_FALSE(went);
  CHECK(wait > 0s);
  CHECK(stats.granted == 4);
}

net::awaitable<void> all_of_semaphore(net::io_context& io) {
  auto& clock = canigo::time_source::of(io.get_executor());
  // [contract]
  canigo::semaphore db{io, {.permits = 8, .priorities = 2}};
  canigo::permit p = co_await db.acquire({.priority = 1});  // [[nodiscard]], move-only, given back when dropped
  canigo::permit three = co_await db.acquire({.priority = 0, .tokens = 3, .deadline = clock.now() + 1s});
  std::optional<canigo::permit> maybe = db.try_acquire();
  canigo::permit one = three.split(1);
  bool whole = three.held() == 2;
  three.release();
  db.resize(4);  // never revokes; no request is granted until fewer than 4 are out
  // [contract]
  CHECK(whole);
  CHECK(maybe);
  CHECK(db.stats().held == 3);
}

void show_waiting(const canigo::limiter& api) {
  const auto show = [](std::uint64_t, int, canigo::time_point, canigo::duration, canigo::wait_reason::cause) {};
  // [contract]
  for (const canigo::waiting_request& w : api.waiting(20)) {  // the first 20, in order
    show(w.tag, w.priority, w.since, w.estimate, w.reason.binds);
  }
  canigo::duration short_of_tokens = api.stats().binding.rates.at(1);
  // [contract]
  CHECK(short_of_tokens == 0s);
}

net::awaitable<void> all_of_limiter(net::io_context& io) {
  using canigo::rate;
  // [contract]
  canigo::limiter api{io,
                      {.rates = {{rate::per_second(10), 1000, 1000}, {rate::per_minute(300), 3000, 1000}},
                       .concurrency = 16,
                       .priorities = 3}};
  canigo::permit p = co_await api.acquire({.priority = 0, .tokens = 800});
  p.settle(1'130);                                 // what was really used: the difference is charged, or given back
  canigo::wait_reason reason = api.why_waiting();  // the limit that binds, and when it lets the first go
  api.set_rate(1, rate::per_minute(600));
  api.set_concurrency(32);
  // [contract]
  CHECK(reason.binds == canigo::wait_reason::cause::none);
  CHECK(api.stats().tokens.front() == -130);
  show_waiting(api);
}

net::awaitable<void> all_of_units(net::io_context& io) {
  using canigo::rate;
  // [contract]
  canigo::limiter model{
      io,
      {.rates = {{rate::per_minute(500), 20, 20, "requests"}, {rate::per_minute(200'000), 40'000, 40'000, "tokens"}}}};
  canigo::permit call = co_await model.acquire({.amounts = {{"tokens", 1200}}});  // and one request
  call.settle("tokens", 1130);
  // [contract]
  CHECK(model.stats().tokens == std::vector<std::int64_t>{19, 38'870});
}

net::awaitable<void> all_of_shared_cap(net::io_context& io) {
  using canigo::rate;
  // [contract]
  canigo::shared_cap connections{{.permits = 2}};
  canigo::limiter reports{io, {.rates = {{rate::per_second(1)}}, .share = connections}};
  canigo::limiter payments{io, {.rates = {{rate::per_second(100)}}, .share = connections}};
  canigo::permit report = co_await reports.acquire();  // a token of the one, and a place of both, in one step
  connections.resize(4);                               // never revokes
  std::uint64_t out = connections.held();              // of all limiters; permits() says how many there are
  // [contract]
  CHECK(out == 1);
  CHECK(payments.try_acquire());
}

net::awaitable<void> all_of_alternatives(net::io_context& io) {
  using canigo::rate;
  const auto now = [&io] { return canigo::time_source::of(io.get_executor()).now(); };
  // [contract]
  canigo::limiter keys{io,
                       {.alternatives = {{.name = "team", .rates = {{rate::per_minute(500), 20}}},
                                         {.name = "spare", .rates = {{rate::per_minute(60), 5}}, .prefer = 2}}}};
  canigo::permit with = co_await keys.acquire({.alternatives = 0b11});  // a bit for each that may serve it
  std::string_view name = with.alternative_name();                      // and with.alternative() is its index
  keys.alternative("team").pause_until(now() + 30s);                    // the others go on
  keys.alternative(1).set_rate(0, rate::per_minute(90));
  // [contract]
  CHECK(name == "team");
  with = co_await keys.acquire();
  CHECK(with.alternative() == 1);
}

net::awaitable<void> all_of_sublimits(net::io_context& io) {
  using canigo::rate;
  const auto now = [&io] { return canigo::time_source::of(io.get_executor()).now(); };
  // [contract]
  canigo::limiter api{io,
                      {.rates = {{rate::per_minute(500), 20}},
                       .sublimits = {{.name = "large", .rates = {{rate::per_minute(60), 5}}, .concurrency = 4},
                                     {.name = "small", .rates = {{rate::per_minute(300), 10}}}}}};
  canigo::permit p = co_await api.acquire({.sublimit = 0});  // with one token of "large"
  const int added = api.add_sublimit({.name = "new", .rates = {{rate::per_minute(10), 2}}}, now());
  api.sublimit(1).set_rate(0, rate::per_minute(90));
  // [contract]
  CHECK(added == 2);
  CHECK(api.stats().sublimits[0].held == 1);
}

net::awaitable<void> all_of_an_adaptive_limit(net::io_context& io) {
  auto op = []() -> net::awaitable<int> { co_return 7; };
  // [contract]
  canigo::adaptive_limit db{io, {.initial = 20, .least = 1, .most = 1000, .priorities = 3}};
  int g = co_await canigo::with_limit(op(), db, {.priority = 1});  // learns how op() ended
  canigo::adaptive_permit p = co_await db.acquire(1);              // the same by hand
  p.succeeded();                                                   // or dropped(), cancelled(); none: no sample
  canigo::adaptive_limit goal{io, {.algorithm = canigo::aimd{.target = 50ms}}};
  canigo::limit_decision last = db.stats().last_decision;  // from, to, when and why
  // [contract]
  CHECK(g == 7);
  CHECK(db.stats().succeeded == 2);
  CHECK(goal.limit() == 20);
  CHECK(last.why == canigo::limit_reason::none);
}

net::awaitable<void> all_of_a_breaker(net::io_context& io) {
  auto op = []() -> net::awaitable<int> { co_return 7; };
  // [contract]
  canigo::circuit_breaker crm{io, {.failures = 50, .least_calls = 20, .window = 30s, .slow = 2s, .open_for = 5s}};
  int f = co_await canigo::with_breaker(canigo::with_timeout(op(), 2s), crm);  // errc::circuit_open at once while open
  canigo::circuit_pass pass = crm.enter();                                     // the same by hand
  pass.succeeded();                                                            // or failed(); neither: no sample
  crm.force_open();
  crm.reset();
  canigo::circuit_state state = crm.state();
  // [contract]
  CHECK(f == 7);
  CHECK(state == canigo::circuit_state::closed);
}

net::awaitable<void> all_of_a_policy(net::io_context& io) {
  // [contract]
  canigo::policy upstream{io,
                          {.timeout = 2s,
                           .breaker = canigo::circuit_breaker_options{},
                           .retry = canigo::retry_policy{.attempts = 3},
                           .limits = canigo::limiter_options{.rates = {{canigo::rate::per_second(10), 10}}}}};
  reply answer = co_await upstream.run([] { return send("/accounts"); }, {.priority = 0});
  // [contract]
  CHECK(answer.status == 200);
}

net::awaitable<void> all_of_flow(net::io_context& io) {
  using canigo::rate;
  canigo::limiter api{io, {.rates = {{rate::per_second(10), 10, 10}}, .priorities = 2}};
  // [contract]
  canigo::flow gold{api, {.weight = 3}};
  canigo::flow trial{api, {.rates = {{rate::per_second(2), 5}}, .concurrency = 4, .queue_limit = 100}};
  canigo::permit p = co_await api.acquire({.priority = 1, .flow = &gold});
  canigo::flow_stats how = gold.stats();
  gold.set_weight(5);  // from the next grant on
  trial.set_rate(0, rate::per_second(3));
  trial.set_concurrency(8);                                   // both at once
  trial.pause_until(std::chrono::steady_clock::now() + 5s);   // nothing for this flow, and the others go on
  trial.extend_pause(std::chrono::steady_clock::now() + 2s);  // the longer one stays
  trial.resume();
  // [contract]
  CHECK(how.granted == 1);
  CHECK(how.held == 1);
}

net::awaitable<void> all_of_with_limit(net::io_context& io) {
  auto op = []() -> net::awaitable<int> { co_return 7; };
  canigo::semaphore slots{io, {.permits = 2, .priorities = 2}};
  canigo::scheduler quota{io, {.rate = canigo::rate::per_second(5), .burst = 1000, .initial_tokens = 1000}};
  // [contract]
  int d = co_await canigo::with_limit(op(), slots, {.priority = 1});
  int e = co_await canigo::with_limits(op(), std::tie(slots, quota), {.tokens = 800});
  // [contract]
  CHECK(d + e == 14);
  CHECK(slots.stats().held == 0);
  CHECK_FALSE(quota.try_acquire({.tokens = 201}));
}

net::awaitable<void> all_of_groups(net::io_context& io) {
  auto work = [](int n) -> net::awaitable<int> { co_return n; };
  // [contract]
  canigo::task_group group{io};
  canigo::task_result<int> one = group.spawn(work(1));
  group.spawn(work(2));
  co_await group.join();  // the first error cancels the rest, waits for them, and is thrown; wait_all() collects
  int result = one.get();

  canigo::gate gate{io};
  canigo::permit inside = gate.enter();  // in each operation, for as long as it lasts
  inside.release();
  co_await gate.close();  // no caller gets in any more; waits until all have left

  canigo::wait_group count{io};
  count.add(2);
  count.done();
  count.done();
  co_await count.wait();
  // [contract]
  CHECK(result == 1);
}

struct chunk {
  std::string name;
  std::string bytes;
};

std::uint64_t size_of(const chunk& c) { return c.bytes.size(); }

net::awaitable<void> all_of_channels(net::io_context& io) {
  chunk one{"one", "1"}, two{"two", "22"}, three{"three", "333"}, four{"four", "4444"}, last;
  std::error_code failed;
  // [contract]
  canigo::channel_capacity memory{io, {.bytes = 64'000'000}};
  canigo::channel<chunk> chunks{io,
                                {.capacity = 100,     // values
                                 .size_of = size_of,  // their bytes; called once for each value
                                 .shared = memory,    // of several channels
                                 .reserved_bytes = 1'000'000,
                                 .priorities = 2}};

  co_await chunks.send(std::move(one), 1);            // waits for room; throws
  co_await chunks.send(two, 0, failed);               // sets `failed`, and gives `two` back then
  bool was_sent = chunks.try_send(std::move(three));  // never waits; gives `three` back if there is no room
  chunks.async_send(std::move(four), 1, net::detached);
  chunk next = co_await chunks.receive();
  chunks.close();
  while (std::optional<chunk> c = co_await chunks.receive(failed)) last = std::move(*c);
  // failed == canigo::errc::closed
  // [contract]
  CHECK((was_sent && next.name == "two" && last.name == "four" && failed == canigo::errc::closed));
}

net::awaitable<void> all_of_time(net::ip::tcp::socket socket, canigo::time_point t) {
  auto op = []() -> net::awaitable<int> { co_return 7; };
  std::array<char, 16> bytes{};
  auto buffer = net::buffer(bytes);
  // [contract]
  co_await canigo::sleep_for(50ms);
  co_await canigo::sleep_until(t);
  int a = co_await canigo::with_timeout(op(), 2s);
  int b = co_await canigo::with_deadline(op(), t);
  std::size_t n = co_await socket.async_read_some(buffer, canigo::cancel_after(2s));
  canigo::cancel_source stop;
  int c = co_await stop.wrap(op());
  stop.cancel();  // from any thread
  // [contract]
  CHECK(a + b + c == 21);
  CHECK(n == 2);
}

}  // namespace

TEST_CASE("docs: a call waits for its turn, goes on, and gives up in time") {
  start_over();
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::scheduler quota{io, {.rate = canigo::rate::per_second(1), .priorities = 3}};
  net::co_spawn(io, get(quota, "/low", 2), rethrow);
  net::co_spawn(io, get_soon(quota, "/soon"), rethrow);
  time.run();
  CHECK(sent == std::vector<std::string>{"/soon", "/low"});
  CHECK(time.elapsed() == 2010ms);
}

TEST_CASE("docs: a coroutine on an executor of a type of its own acquires, and what it ends with comes out of run") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::scheduler quota{io, {.rate = canigo::rate::per_second(1), .priorities = 2}};
  std::string log;
  net::co_spawn(io, get_typed(quota, log), rethrow);
  time.run();
  CHECK(log == "gone");
  CHECK(time.elapsed() == 1s);
  net::co_spawn(io, get(quota, "/a", 2), rethrow);  // there is no such priority
  CHECK_THROWS_AS(time.run(), std::system_error);
}

TEST_CASE("docs: a 429 holds everybody back") {
  start_over(1);
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::scheduler quota{io, {.rate = canigo::rate::per_second(1)}};
  net::co_spawn(io, get_heeding_429(quota, "/a", 0), rethrow);
  time.run_for(1010ms);
  net::co_spawn(io, get(quota, "/b", 0), rethrow);
  CHECK(sent.size() == 1);
  time.run_for(29s + 999ms);
  CHECK(sent.size() == 1);
  time.run();
  CHECK(sent.size() == 3);
  CHECK(time.elapsed() == 1010ms + 30s + 1000ms + 10ms);
}

TEST_CASE("docs: what was really used is settled") {
  start_over();
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::scheduler quota{io, {.rate = canigo::rate::per_minute(60'000), .burst = 1000, .initial_tokens = 1000}};
  net::co_spawn(io, get_metered(quota, "/a", 1000), rethrow);
  time.run();
  CHECK(quota.stats().tokens == 310);
}

TEST_CASE("docs: several limits are one") {
  start_over();
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::limiter api{io, {.rates = {{canigo::rate::per_minute(60'000), 1000, 1000}}, .concurrency = 1}};
  for (int i = 0; i < 2; ++i) net::co_spawn(io, get_limited(api, "/a", 0), rethrow);
  time.run();
  // 500 at 0 ms; 700 settled at 10 ms, which leaves 310; the second has its 500 at 200 ms, and ends at 210.
  CHECK(time.elapsed() == 210ms);
}

TEST_CASE("docs: each unit has its own amount") {
  start_over();
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::limiter model{io,
                        {.rates = {{canigo::rate::per_minute(500), 20, 20, "requests"},
                                   {canigo::rate::per_minute(60'000), 1000, 1000, "tokens"}}}};
  for (int i = 0; i < 2; ++i) net::co_spawn(io, get_answer(model, "/a", 500), rethrow);
  time.run();
  // Both at 0 ms, and 700 settled by each at 10 ms.
  CHECK(time.elapsed() == 10ms);
  CHECK(model.stats().tokens == std::vector<std::int64_t>{18, -390});
}

TEST_CASE("docs: an operation and its limits") {
  start_over();
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::semaphore slots{io, {.permits = 2, .priorities = 2}};
  canigo::scheduler quota{io, {.rate = canigo::rate::per_second(10), .priorities = 2}};
  for (const char* url : {"/a", "/b", "/c"}) net::co_spawn(io, get_when_free(slots, quota, url), rethrow);
  time.run();
  CHECK(sent == std::vector<std::string>{"/a", "/b", "/c"});
  CHECK(time.elapsed() == 310ms);
}

TEST_CASE("docs: a callee that says it has too much to do opens its breaker") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::circuit_breaker crm{io, {.least_calls = 4}};
  canigo::semaphore slots{io, {.permits = 2}};
  start_over(4);
  std::vector<std::error_code> ends;
  for (int i = 0; i < 6; ++i) {
    net::co_spawn(io, ask_crm(crm, slots, "/a"), [&](std::exception_ptr e, const reply&) {
      try {
        if (e) std::rethrow_exception(e);
      } catch (const std::system_error& s) {
        ends.push_back(s.code());
      }
    });
    time.run();
  }
  CHECK(sent.size() == 4);
  CHECK(ends == std::vector<std::error_code>{canigo::errc::overloaded, canigo::errc::overloaded,
                                             canigo::errc::overloaded, canigo::errc::overloaded,
                                             canigo::errc::circuit_open, canigo::errc::circuit_open});
}

TEST_CASE("docs: a pause longer than the limit of a call fails no call") {
  start_over();
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::scheduler quota{io, {.rate = canigo::rate::per_second(10)}};
  canigo::strand_pool pool{io, {.concurrency = 8}};
  quota.pause_until(time.now() + 30s);
  int got = 0, too_late = 0;
  for (int i = 0; i < 40; ++i) {
    net::co_spawn(io, get_through_a_pause(pool, quota, "/a", time.now() + 1min),
                  [&](std::exception_ptr e, const reply&) { got += e == nullptr; });
    net::co_spawn(io, get_through_a_pause(pool, quota, "/a", time.now() + 20s),
                  [&](std::exception_ptr e, const reply&) { too_late += e != nullptr; });
  }
  time.run();
  CHECK(got == 40);
  CHECK(too_late == 40);
}

TEST_CASE("docs: workers end when the scheduler stops") {
  start_over();
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::scheduler quota{io, {.rate = canigo::rate::per_second(10)}};
  bool ended = false;
  net::co_spawn(io, worker(quota), [&](std::exception_ptr e) { ended = e == nullptr; });
  time.run_for(1s);
  quota.stop();
  time.run();
  CHECK(ended);
  CHECK(sent.size() == 10);
}

TEST_CASE("docs: a server that would be too slow says so") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::scheduler quota{io, {.rate = {1, 2s}}};
  int busy = 0;
  for (int i = 0; i < 4; ++i) {
    net::co_spawn(io, serve(quota, 0), [&](std::exception_ptr, int status) { busy += status == 503; });
  }
  time.run();
  CHECK(busy == 2);
  CHECK(summary(quota) == "0 waiting, 2 granted, 99 % of them within 4000 ms\n");
}

TEST_CASE("docs: a limit that sheds, and one that only counts") {
  using canigo::rate;
  net::io_context io;
  canigo::testing::virtual_time time{io};
  // [guide]
  canigo::semaphore db{io, {.permits = 10, .shedding = {.target = 5ms, .interval = 100ms}}};
  // [guide]
  CHECK(db.try_acquire());
  // [guide]
  canigo::scheduler quota{io, {.rate = rate::per_second(5), .mode = canigo::enforcement::shadow}};
  canigo::shadow_stats would = quota.stats().shadow;  // waited, refused, shed; and how long
  quota.set_mode(canigo::enforcement::enforce);       // now it counts
  // [guide]
  CHECK(would.waited == 0);
  CHECK_FALSE(quota.try_acquire());
}

TEST_CASE("docs: the contract's examples") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  std::exception_ptr error;
  int ended = 0;
  const auto keep = [&](std::exception_ptr e) {
    if (e) error = e;
    ++ended;
  };
  net::co_spawn(io, all_of_scheduler(io), keep);
  net::co_spawn(io, all_of_semaphore(io), keep);
  net::co_spawn(io, all_of_limiter(io), keep);
  net::co_spawn(io, all_of_units(io), keep);
  net::co_spawn(io, all_of_shared_cap(io), keep);
  net::co_spawn(io, all_of_alternatives(io), keep);
  net::co_spawn(io, all_of_sublimits(io), keep);
  net::co_spawn(io, all_of_flow(io), keep);
  net::co_spawn(io, all_of_with_limit(io), keep);
  net::co_spawn(io, all_of_a_breaker(io), keep);
  net::co_spawn(io, all_of_an_adaptive_limit(io), keep);
  net::co_spawn(io, all_of_a_policy(io), keep);
  net::co_spawn(io, all_of_groups(io), keep);
  net::co_spawn(io, all_of_channels(io), keep);
  net::ip::tcp::acceptor acceptor{io, {net::ip::address_v4::loopback(), 0}};
  net::ip::tcp::socket near{io};
  near.connect(acceptor.local_endpoint());
  net::ip::tcp::socket far = acceptor.accept();
  net::write(far, net::buffer("ok", 2));
  time.run_for(0s);
  net::co_spawn(io, all_of_time(std::move(near), time.now() + 1s), keep);
  time.run();
  CHECK(error == nullptr);
  CHECK(ended == 15);
}

// ---- policies.md --------------------------------------------------------------------------------

namespace {

struct asked_to_wait : std::runtime_error {
  explicit asked_to_wait(canigo::duration d) : std::runtime_error{"429"}, retry_after{d} {}
  canigo::duration retry_after;
};

net::awaitable<reply> checked_send(std::string url) {
  const reply r = co_await send(url);
  if (r.status == 429) throw asked_to_wait{r.retry_after};
  co_return r;
}

const canigo::retry_condition worth_it = [](const std::exception_ptr& e) -> std::optional<canigo::duration> {
  try {
    std::rethrow_exception(e);
  } catch (const asked_to_wait& r) {
    return r.retry_after;
  } catch (...) {
    return std::nullopt;
  }
};

net::awaitable<reply> get_with_retries(canigo::scheduler& quota, canigo::retry_budget& budget, std::string url) {
  co_return co_await canigo::retry([&] { return canigo::with_limit(checked_send(url), quota); },
                                   {.attempts = 4, .budget = &budget, .retry_if = worth_it},
                                   canigo::time_source::of(quota.get_executor()).now() + 1min);
}

canigo::loop_lag watch(net::io_context& io, std::vector<std::string>& log) {
  return canigo::loop_lag{io, {.interval = 100ms, .threshold = 50ms, .on_change = [&log](bool overloaded, auto) {
                                 log.push_back(overloaded ? "shed load" : "as usual");
                               }}};
}

net::awaitable<void> all_of_policies(net::io_context& io) {
  auto call = [] { return checked_send("/"); };
  canigo::retry_budget budget;
  const auto t = canigo::time_source::of(io.get_executor()).now() + 10s;
  reply r = co_await canigo::retry(call, {.attempts = 4, .budget = &budget}, t);  // a new call for each attempt
  canigo::retry_budget copies{canigo::hedge_budget};
  canigo::latency_window latencies;
  r = co_await canigo::hedge(call, {.after = 50ms, .budget = &copies});
  r = co_await canigo::hedge(call, {.after = canigo::quantile{0.95}, .budget = &copies, .window = &latencies});

  canigo::keyed_scheduler<std::string> per_ip{io, {.rate = canigo::rate::per_second(5), .burst = 10}};
  if (!per_ip.try_acquire("192.0.2.1")) co_await canigo::sleep_for(per_ip.retry_after("192.0.2.1"));
  co_await per_ip.acquire("192.0.2.1", {.tokens = 2, .deadline = t});
  canigo::keyed_semaphore<std::string> per_user{io, {.permits = 2}};
  canigo::keyed_permit<std::string> p = co_await per_user.acquire("alice");
  canigo::keyed_stats stats = per_ip.stats();

  canigo::loop_lag lag{io, {.interval = 100ms, .threshold = 50ms}};
  bool overloaded = lag.is_overloaded();
  CHECK(r.status == 200);
  CHECK(p.held() == 1);
  CHECK(stats.keys == 1);
  CHECK_FALSE(overloaded);
}

}  // namespace

TEST_CASE("docs: policies around a call") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::scheduler quota{io, {.rate = canigo::rate::per_second(10)}};
  canigo::retry_budget budget;
  std::vector<std::string> log;
  start_over(1);
  net::co_spawn(io, get_with_retries(quota, budget, "/a"), rethrow);
  {
    auto lag = watch(io, log);
    time.run_for(40s);
  }
  CHECK(sent == std::vector<std::string>{"/a", "/a"});
  CHECK(log.empty());
  start_over();
  net::co_spawn(io, all_of_policies(io), rethrow);
  time.run_for(1min);
}

// ---- coming-from.md -----------------------------------------------------------------------------

namespace {

net::awaitable<void> from_bottleneck(net::io_context& io) {
  auto job = [] { return send("/job"); };
  // [coming-from]
  canigo::limiter bottleneck{io, {.rates = {{canigo::rate{1, 333ms}}}, .concurrency = 5, .priorities = 10}};
  reply r = co_await canigo::with_limit(job(), bottleneck, {.priority = 5});
  // [coming-from]
  CHECK(r.status == 200);
}

net::awaitable<void> from_resilience4j(net::io_context& io) {
  auto backend = [] { return send("/backend"); };
  // [coming-from]
  canigo::policy decorated{io,
                           {.timeout = 1s,
                            .breaker = canigo::circuit_breaker_options{.failures = 50, .least_calls = 100, .slow = 2s},
                            .retry = canigo::retry_policy{.attempts = 3, .backoff = canigo::backoff::constant(500ms)},
                            .limits = canigo::limiter_options{.concurrency = 25}}};
  reply r = co_await decorated.run(backend);
  // [coming-from]
  CHECK(r.status == 200);
}

net::awaitable<void> from_go(net::io_context& io) {
  auto& clock = canigo::time_source::of(io.get_executor());
  // [coming-from]
  canigo::scheduler limiter{io, {.rate = canigo::rate::per_second(10), .burst = 5, .initial_tokens = 5}};
  bool allowed = limiter.try_acquire();                                   // limiter.Allow()
  co_await limiter.acquire({.tokens = 3, .deadline = clock.now() + 1s});  // limiter.WaitN(ctx, 3)
  canigo::task_group group{io};                                           // errgroup.WithContext(ctx)
  canigo::task_result<reply> page = group.spawn(send("/a"));              // group.Go(…)
  co_await group.join();                                                  // group.Wait()
  // [coming-from]
  CHECK(allowed);
  CHECK(page.get().status == 200);
}

net::awaitable<void> from_tokio(net::io_context& io) {
  // [coming-from]
  canigo::semaphore semaphore{io, {.permits = 3}};
  canigo::permit two = co_await semaphore.acquire({.tokens = 2});  // semaphore.acquire_many(2).await
  reply r = co_await canigo::with_timeout(send("/a"), 1s);         // timeout(Duration::from_secs(1), send("/a")).await
  two.release();                                                   // drop(two)
  // [coming-from]
  CHECK(r.status == 200);
}

net::awaitable<void> from_timers(net::io_context& io) {
  // [coming-from]
  co_await canigo::sleep_for(100ms);                                    // timer.async_wait(use_awaitable)
  canigo::scheduler ticks{io, {.rate = canigo::rate::per_second(50)}};  // timer.expires_at(last + 20ms)
  for (int tick = 0; tick < 3; ++tick) co_await ticks.acquire();        // never drifts
  reply r = co_await canigo::with_timeout(send("/a"), 2s);              // send("/a") || timer.async_wait()
  // [coming-from]
  CHECK(r.status == 200);
}

}  // namespace

TEST_CASE("docs: coming from other libraries") {
  start_over();
  net::io_context io;
  canigo::testing::virtual_time time{io};
  for (auto from : {from_bottleneck, from_resilience4j, from_go, from_tokio, from_timers}) {
    net::co_spawn(io, from(io), rethrow);
    time.run();
  }
  CHECK(sent.size() == 5);
}

// ---- testing.md ---------------------------------------------------------------------------------

TEST_CASE("a night's worth of reports goes out in an hour, and none of them before a payment") {
  std::vector<std::string> log;
  net::io_context io;
  canigo::testing::virtual_time time{io};  // before the first canigo object on io
  canigo::scheduler quota{io, {.rate = canigo::rate::per_hour(100), .priorities = 2}};
  auto call = [&](int priority, std::string name) -> net::awaitable<void> {
    co_await quota.acquire(priority);
    log.push_back(name);
  };

  for (int i = 0; i < 100; ++i) net::co_spawn(io, call(1, "report"), rethrow);
  time.run_for(30min);
  CHECK(log.size() == 50);

  net::co_spawn(io, call(0, "payment"), rethrow);
  time.run_for(36s);
  CHECK(log.back() == "payment");

  time.run();
  CHECK(log.size() == 101);
  CHECK(time.elapsed() == 1h + 36s);
}

TEST_CASE("signals stop a pool, a policy, and all that a function stops") {
  net::io_context io;
  canigo::strand_pool pool{io, {.concurrency = 2}};
  canigo::policy crm{io, {.limits = canigo::limiter_options{.rates = {canigo::rate::per_second(10)}}}};
  canigo::scheduler quota{io, {.rate = canigo::rate::per_second(10)}};
  canigo::gate inside{io};
  net::ip::tcp::acceptor listener{io, {net::ip::address_v4::loopback(), 0}};

  canigo::stop_on_signals of_pool{io, pool, {.grace = 20s}};  // or a jobs::service
  canigo::stop_on_signals of_calls{io, crm};                  // a policy, any limit or a gate

  const auto stop = [&](canigo::stop_mode mode, canigo::duration grace) -> net::awaitable<void> {
    listener.close();
    quota.stop();
    co_await pool.stop(mode, grace);
    co_await inside.close();
  };
  canigo::stop_on_signals signals{io, stop, {.grace = 20s}};

  io.poll();
  std::raise(SIGTERM);
  io.run();
  CHECK(pool.is_closed());
  CHECK_FALSE(listener.is_open());
  CHECK_FALSE(inside.try_enter());
}

TEST_CASE("who sleeps and who does not are done in the end, in ten thousand orders") {
  int done = 0;
  const auto code_under_test = [&]() -> net::awaitable<void> {
    canigo::task_group group{co_await net::this_coro::executor};
    const auto work = [](int& n, canigo::duration d) -> net::awaitable<void> {
      co_await canigo::sleep_for(d);
      ++n;
    };
    for (int i = 0; i < 3; ++i) group.spawn(work(done, i % 2 * 1ms));
    co_await group.join();
  };
  const auto invariant = [&] { return std::exchange(done, 0) == 3; };

  for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
    canigo::testing::simulation world{seed};
    net::co_spawn(world.get_executor(), code_under_test(), rethrow);
    world.run();
    INFO("seed " << seed);
    CHECK(invariant());
  }
}
