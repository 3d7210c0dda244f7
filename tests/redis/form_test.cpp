// A limit that processes of another version of the library keep in Redis, in another form.
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "../lib/redis/script.hpp"
#include "../lib/redis/sync.hpp"
#include "redis/member.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

const std::string no_numbers = redis::detail::packed(std::vector<double>(19, 0));
constexpr std::int64_t far_away = 9'000'000'000'000'000;

/// What others remember of a limit, whose lease lasts.
struct others {
  others(net::io_context& c, redis::client& r, const std::string& kind)
      : io{c}, client{r}, prefix{"{canigo:default:crm}:" + kind} {}

  void have(const std::string& text) {
    run(io, client.run("HSET", prefix + ":state", "*", text));
    run(io, client.run("ZADD", prefix + ":sess", far_away, "host:1:1:1"));
  }
  /// As if their lease had run out.
  void go() { run(io, client.run("ZADD", prefix + ":sess", 1, "host:1:1:1")); }
  std::string text() { return run(io, client.run("HGET", prefix + ":state", "*")).text(); }

  net::io_context& io;
  redis::client& client;
  const std::string prefix;
};

template <class Work>
std::error_code refused(net::io_context& io, Work work) {
  try {
    [[maybe_unused]] const auto got = run(io, work());
  } catch (const std::system_error& e) {
    static_cast<void>(said_by(e));
    return e.code();
  }
  return {};
}

}  // namespace

TEST_CASE("who finds a limit in another form is told both, and touches nothing") {
  const struct {
    std::string text;
    int form;
  } forms[]{{no_numbers + "0123456789abcdef" + '\0' + '\0', 1},
            {"short", 1},
            {no_numbers + "\4\4more", 4},
            {no_numbers + "\2\3run", 2}};
  for (const auto& [text, form] : forms) {
    CAPTURE(form, text.size());
    redis_server server;
    net::io_context io;
    member m{io, server.url(), {.permits = 2, .lease = 1min}};
    others older{io, m.client, "s"};
    older.have(text);
    const auto acquire = [&] { return m.slots.acquire(); };
    const auto acquire_now = [&] { return m.slots.acquire_now(); };
    // The first asks Redis; the others come before it is asked again.
    for (int i = 0; i < 3; ++i) {
      const std::error_code ec = i == 2 ? refused(io, acquire_now) : refused(io, acquire);
      CHECK(ec.category() == redis::form_category());
      CHECK(ec.value() == form);
      CHECK(ec.message() ==
            "processes of another version use this limit, in form " + std::to_string(form) + "; this one's is form 3");
    }
    CHECK_FALSE(m.slots.stats().available);
    CHECK(m.slots.stats().waiting == 0);
    CHECK(older.text() == text);
    CHECK(run(io, m.client.run("ZCARD", older.prefix + ":sess")).integer() == 1);
  }
  CHECK(redis::form_category().name() == std::string{"redis form"});
}

TEST_CASE("once the last that kept it in another form has gone, and its lease, a limit is made anew") {
  // Nobody knows who holds something, so it begins with a quarantine.
  for (const bool quarantine : {true, false}) {
    CAPTURE(quarantine);
    redis_server server;
    drained io;
    member m{io, server.url(), {.permits = 2, .lease = 1min, .quarantine = quarantine}};
    others older{io, m.client, "s"};
    older.have(no_numbers + "\4");
    run(io, m.client.run("ZADD", older.prefix + ":q", 1, "host:1:1:1|1|1"));
    CHECK(error_of(io, m.slots.acquire()).category() == redis::form_category());
    older.go();
    auto w = std::make_unique<waiting>(m.slots, canigo::request{});
    run_until(io, [&] {
      if (w->ended() && w->ec->category() == redis::form_category()) {
        w = std::make_unique<waiting>(m.slots, canigo::request{});
        io.restart();
      }
      return quarantine ? m.slots.stats().quarantine > 30s : w->p.held() == 1;
    });
    CHECK(w->ended() == !quarantine);
    CHECK(m.slots.stats().available);
    REQUIRE(older.text().size() > 152);
    CHECK(older.text()[152] == redis::detail::limit_form);
    CHECK(run(io, m.client.run("ZSCORE", older.prefix + ":q", "host:1:1:1|1|1")).is_nil());
    CHECK(run(io, m.client.run("ZSCORE", older.prefix + ":sess", "host:1:1:1")).is_nil());
    w->cancel.emit(net::cancellation_type::total);
    run_until(io, [&] { return w->ended(); });
  }
}

TEST_CASE("processes of a version before the forms had numbers can't read what is kept now") {
  redis_server server;
  net::io_context io;
  member m{io, server.url(), {.permits = 2, .quarantine = false}};
  auto p = run(io, m.slots.acquire());
  const auto as_they_read = [&](const std::string& how) {
    return m.client.run("EVAL", "return #{struct.unpack('" + how + "', redis.call('HGET', KEYS[1], '*'))}", 1,
                        "{canigo:default:crm}:s:state");
  };
  CHECK(run(io, as_they_read("<dddddddddddddddddddB")).integer() == 21);
  const auto older = [&] { return as_they_read("<dddddddddddddddddddss"); };
  CHECK(refused(io, older) == redis::error::command_failed);
}

TEST_CASE("a quota in another form is refused in every failure mode") {
  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  others older{io, client, "r"};
  older.have(no_numbers + "\4");
  redis::scheduler closed{client, "crm", {.rate = rate::per_second(1000)}};
  redis::scheduler open{client, "crm", {.rate = rate::per_second(1000), .on_failure = redis::failure_mode::open()}};
  redis::scheduler local{
      client, "crm", {.rate = rate::per_second(1000), .on_failure = redis::failure_mode::local(0.5)}};
  const auto ask = [](redis::scheduler& s) {
    return [&s]() -> net::awaitable<int> {
      co_await s.acquire(0);
      co_return 0;
    };
  };
  for (auto* s : {&closed, &open, &local}) {
    CHECK(refused(io, ask(*s)).category() == redis::form_category());
    CHECK(s->stats().granted_locally == 0);
  }
}

TEST_CASE("who holds permits when a limit is in another form loses them with the lease [realtime]", "[realtime]") {
  redis_server server;
  net::io_context io;
  member m{io, server.url(), {.permits = 2, .lease = 300ms, .quarantine = false}};
  auto p = run(io, m.slots.acquire());
  others older{io, m.client, "s"};
  run(io, m.client.run("FLUSHALL"));
  older.have(no_numbers + "\4");
  run_until(io, [&] { return p.held() == 0; });
  CHECK(m.slots.stats().lost_leases == 1);
}
