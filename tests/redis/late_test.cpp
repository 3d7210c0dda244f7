// What comes too late, of a limit whose clock stands still while its lease, which has a clock of its own, goes on.
#include "canigo/error.hpp"
#include "canigo/redis/detail/reply_reader.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"
#include "canigo/time_source.hpp"

#include "../lib/redis/sync.hpp"
#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/scripted.hpp"
#include "redis/server.hpp"
#include "redis/stopped_clock.hpp"
#include "support/catch.hpp"

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

/// The lease of whoever has one is over afterwards.
void wait_out(canigo::duration lease) {
  const auto over = steady::now() + lease;
  while (steady::now() < over) std::this_thread::yield();
}

/// The commands of a client, one by one.
class command_reader {
 public:
  explicit command_reader(peer& p) : peer_{p} {}

  net::awaitable<std::vector<std::string>> next() {
    std::error_code ec;
    std::array<char, 4096> part;
    for (;;) {
      if (const auto r = reader_.next(ec)) {
        std::vector<std::string> words;
        for (const auto& word : r->elements()) words.push_back(word.text());
        co_return words;
      }
      const std::size_t n = co_await peer_.socket.async_read_some(asio::buffer(part), asio::use_awaitable);
      ec = reader_.feed({part.data(), n});
    }
  }

 private:
  peer& peer_;
  redis::detail::reply_reader reader_{1 << 20};
};

const std::string no_script = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

/// What the script says to one whose first waiter gets a permit.
std::string granted_to_the_first() {
  const std::array<double, 4> run{1, 1, 1, 7};
  return "*12\r\n$2\r\nOK\r\n:-1\r\n:0\r\n:1\r\n:0\r\n:1\r\n:0\r\n:0\r\n$0\r\n\r\n:0\r\n$32\r\n" +
         redis::detail::packed(run) + "\r\n:99\r\n";
}

/// The number of a call of the script in its session.
double number_of_call(const std::vector<std::string>& words) {
  double number = 0;
  std::memcpy(&number, words.at(8).data(), sizeof number);
  return number;
}

}  // namespace

TEST_CASE("an answer that comes when the lease is over lets nobody in, and all is asked anew [realtime]",
          "[realtime]") {
  constexpr auto lease = 300ms;
  redis_server server;
  stopped_clock time;
  member m{time.io, server.url(), {.permits = 1, .lease = lease, .quarantine = false}};
  run(time.io, m.slots.acquire()).release();
  run_until(time.io, [&] { return m.slots.stats().held_by_all == 0 && m.client.stats().in_flight == 0; });
  server.pause();
  waiting w{m.slots, {}};
  run_until(time.io, [&] { return m.client.stats().in_flight == 1; });
  wait_out(lease);
  server.resume();
  // The grant is that of a session that is over: Redis gives the permit to the next one when the lease has ended there.
  const auto calls = m.slots.stats().round_trips;
  run_until(time.io, [&] { return m.slots.stats().round_trips > calls; });
  CHECK_FALSE(w.ended());
  time.pass_until([&] { return w.ended(); });
  CHECK_FALSE(*w.ec);
  CHECK(m.slots.stats().lost_leases == 0);
}

TEST_CASE("a message that comes when the lease is over lets nobody in [realtime]", "[realtime]") {
  const bool is_late = GENERATE(false, true);
  CAPTURE(is_late);
  constexpr auto lease = 300ms;
  redis_server server;
  drained elsewhere;
  member holder{elsewhere, server.url(), {.permits = 1, .lease = 1min, .quarantine = false}};
  const auto p = run(elsewhere, holder.slots.acquire());
  const auto channels = [&] { return run(elsewhere, holder.client.run("PUBSUB", "CHANNELS")).elements(); };

  stopped_clock time;
  member m{time.io, server.url(), {.permits = 1, .lease = lease, .quarantine = false}};
  waiting w{m.slots, {}};
  std::string channel;
  run_until(time.io, [&] {
    const auto all = channels();
    if (!all.empty()) channel = all.front().text();
    // It has heard that it listens, and has asked again as it may have missed something.
    return !all.empty() && m.slots.stats().round_trips == 2;
  });
  // What Redis would say to the first of this process.
  const std::string state = run(elsewhere, holder.client.run("HGET", "{canigo:default:crm}:s:state", "*")).text();
  double epoch = 0;
  std::memcpy(&epoch, state.data() + 5 * sizeof epoch, sizeof epoch);
  const std::string message = "g 1 7 " + std::to_string(static_cast<long long>(epoch));
  if (is_late) wait_out(lease);
  CHECK(run(elsewhere, holder.client.run("PUBLISH", channel, message)).integer() == 1);
  if (is_late) {
    // It asks anew, as another session.
    run_until(time.io, [&] {
      const auto all = channels();
      return !all.empty() && all.front().text() != channel;
    });
    CHECK_FALSE(w.ended());
    w.cancel.emit(net::cancellation_type::total);
  }
  run_until(time.io, [&] { return w.ended(); });
  CHECK(*w.ec == (is_late ? make_error_code(net::error::operation_aborted) : std::error_code{}));
}

TEST_CASE("who is not let in by the deadline is told so") {
  redis_server server;
  drained elsewhere;
  member holder{elsewhere, server.url(), {.permits = 1, .lease = 1min, .quarantine = false}};
  const auto p = run(elsewhere, holder.slots.acquire());
  stopped_clock time;
  member m{time.io, server.url(), {.permits = 1, .lease = 1min, .quarantine = false}};
  waiting w{m.slots, {.deadline = time.clock.now() + 1s}};
  run_until(time.io, [&] { return m.slots.stats().waiting_of_all == 1; });
  time.advance(1s - 1ns);
  run_for(time.io, 1ms);
  CHECK_FALSE(w.ended());
  time.advance(1ns);
  run_until(time.io, [&] { return w.ended(); });
  CHECK(*w.ec == errc::timed_out);
  CHECK(m.slots.stats().timed_out == 1);
  run_until(time.io, [&] { return m.slots.stats().waiting_of_all == 0; });
}

TEST_CASE("what is kept is not used after its time, whatever is due first") {
  redis_server server;
  stopped_clock time;
  member m{time.io, server.url(), {.permits = 1, .lease = 1min, .horizon = 10s, .quarantine = false}};
  run(time.io, m.slots.acquire()).release();
  REQUIRE(m.slots.stats().idle == 1);
  /// Asks before the limit has heard of the time.
  struct early : canigo::deadline {
    explicit early(redis::semaphore& s)
        : deadline{[](deadline& d, canigo::due) noexcept {
            auto& me = static_cast<early&>(d);
            me.got.push_back(me.slots.try_acquire().has_value());
          }},
          slots{s} {}
    redis::semaphore& slots;
    std::vector<bool> got;
  };
  auto& source = canigo::time_source::of(time.io.get_executor());
  early e{m.slots};
  source.arm(e, time.clock.now() + 1ns);
  time.advance(1ns);
  REQUIRE(e.got == std::vector<bool>{true});
  CHECK(m.slots.stats().idle == 1);  // it was dropped at once, and is kept again
  source.arm(e, time.clock.now() + 1ns);
  time.advance(10s);
  CHECK(e.got == std::vector<bool>{true, false});
  CHECK(m.slots.stats().idle == 0);
}

TEST_CASE("a pause holds without Redis too") {
  for (const auto mode : {redis::failure_mode::open(), redis::failure_mode::local(1)}) {
    stopped_clock time;
    redis::client client{time.io, "unix:/nonexistent/redis.sock"};
    redis::scheduler s{client, "api", {.rate = rate::per_second(1000), .on_failure = mode}};
    const auto begin = time.clock.now();
    s.pause_until(begin + 5s);
    std::optional<std::error_code> ec;
    s.async_acquire({}, [&](std::error_code e) { ec = e; });
    while (time.clock.now() < begin + 4900ms) {
      time.advance(100ms);
      time.io.restart();
      time.io.poll();
      REQUIRE_FALSE(ec);
    }
    CHECK(s.stats().failed_calls > 0);
    time.advance(200ms);
    run_until(time.io, [&] { return ec.has_value(); });
    CHECK_FALSE(*ec);
    CHECK(s.stats().granted_locally == 1);
  }
}

TEST_CASE("who leaves while Redis does not answer asks it nothing more") {
  redis_server server;
  stopped_clock time;
  member m{time.io, server.url(), {.permits = 1, .lease = 1min, .quarantine = false}};
  run(time.io, m.slots.acquire()).release();
  run_until(time.io, [&] { return m.slots.stats().held_by_all == 0 && m.client.stats().in_flight == 0; });
  server.kill();
  const auto failed = m.slots.stats().failed_calls;
  waiting w{m.slots, {}};
  time.pass_until([&] { return m.slots.stats().failed_calls > failed; });
  m.slots.stop();
  run_until(time.io, [&] { return w.ended(); });
  CHECK(*w.ec == errc::stopped);
  server.start();
  time.advance(1min);
  CHECK_FALSE(m.slots.try_acquire().has_value());
  time.io.restart();
  time.io.poll();
  CHECK(m.client.stats().waiting == 0);
  CHECK(m.slots.stats().failed_calls == failed + 1);
}

TEST_CASE("a server that forgets the script as soon as it has it is one that does not answer") {
  std::atomic<int> calls{0}, with_text{0};
  const scripted_server server{[&](peer& p) -> net::awaitable<void> {
    co_await greet(p);
    command_reader commands{p};
    for (;;) {
      const auto words = co_await commands.next();
      ++calls;
      with_text += words.front() == "EVAL" ? 1 : 0;
      co_await p.send(no_script);
    }
  }};
  stopped_clock time;
  member m{time.io, url_of(server), {.permits = 1, .lease = 1min, .give_up = 1s, .quarantine = false}};
  waiting w{m.slots, {}};
  run_until(time.io, [&] { return m.slots.stats().failed_calls == 2; });
  CHECK_FALSE(m.slots.stats().available);
  CHECK(calls == 2);
  CHECK(with_text == 1);
  CHECK_FALSE(w.ended());
  time.pass_until([&] { return w.ended(); });
  CHECK(*w.ec == errc::store_unavailable);
  CHECK(with_text == calls - 1);
}

TEST_CASE("a script that is forgotten under a session that has ended is sent for the next one [realtime]",
          "[realtime]") {
  constexpr auto lease = 300ms;
  std::atomic<bool> may_answer{false};
  std::atomic<int> calls{0};
  std::vector<std::vector<std::string>> said;  // read when all of it has been
  const scripted_server server{[&](peer& p) -> net::awaitable<void> {
    co_await greet(p);
    command_reader commands{p};
    for (;;) {
      auto words = co_await commands.next();
      said.push_back(std::move(words));
      if (++calls > 3) co_await p.linger();
      while (calls == 2 && !may_answer) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
      const std::string answer = calls == 2 ? no_script : granted_to_the_first();
      co_await p.send(answer);
    }
  }};
  stopped_clock time;
  member m{time.io, url_of(server), {.permits = 1, .lease = lease, .quarantine = false}};
  auto p = run(time.io, m.slots.acquire());
  CHECK(p.held() == 1);
  time.advance(lease / 2);
  run_until(time.io, [&] { return calls == 2; });
  wait_out(lease);
  waiting w{m.slots, {}};
  CHECK(p.held() == 0);
  CHECK(m.slots.stats().lost_leases == 1);
  may_answer = true;
  run_until(time.io, [&] { return calls == 3; });
  REQUIRE(said.size() == 3);
  CHECK(said[1].front() == "EVALSHA");
  CHECK(said[2].front() == "EVAL");
  CHECK(said[2][7] != said[1][7]);
  CHECK(number_of_call(said[1]) == 2);
  CHECK(number_of_call(said[2]) == 1);
  w.cancel.emit(net::cancellation_type::total);
  run_until(time.io, [&] { return w.ended(); });
}
