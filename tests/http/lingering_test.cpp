#include "canigo/error.hpp"
#include "canigo/http/call_error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/net.hpp"
#include "canigo/policy.hpp"
#include "canigo/timeout.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/buffer.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace http_test;
using namespace std::chrono_literals;
using canigo::errc;
namespace http = canigo::http;
namespace net = canigo::net;

namespace lingering_tests {

/// A server that works on a request until it is told to answer, whatever its client does.
class stubborn_server {
 public:
  std::string url() const { return server_.url(); }
  int at_work() const { return at_work_; }
  int peak() const { return peak_; }
  int requests() const { return requests_; }
  void let_answer(bool may) { may_answer_ = may; }

 private:
  net::awaitable<void> serve(peer& p) {
    for (;;) {
      co_await p.request();
      ++requests_;
      const int now = ++at_work_;
      if (now > peak_) peak_ = now;
      net::steady_timer pause{co_await net::this_coro::executor};
      do {
        pause.expires_after(5ms);
        co_await pause.async_wait(net::use_awaitable);
      } while (!may_answer_);
      --at_work_;
      co_await p.send(ok(std::string(100'000, 'x')));
    }
  }

  std::atomic<int> at_work_{0}, peak_{0}, requests_{0};
  std::atomic<bool> may_answer_{false};
  scripted_server server_{[this](peer& p) { return serve(p); }};
};

const http::client_options no_proxy{.proxy = ""};

/// Runs the loop until `is_so`, with a bound that only a hang reaches.
void run_until(net::io_context& io, auto is_so) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  io.restart();
  while (!is_so() && std::chrono::steady_clock::now() < end) {
    io.restart();
    io.run_for(1ms);
  }
  REQUIRE(is_so());
}

/// Calls that can all be cancelled at once.
class callers {
 public:
  explicit callers(net::io_context& io) : io_{io} {}

  void add(net::awaitable<void> call) {
    net::cancellation_signal& signal = signals_.emplace_back();
    net::co_spawn(io_, std::move(call), net::bind_cancellation_slot(signal.slot(), [this](std::exception_ptr e) {
                    try {
                      if (e) std::rethrow_exception(e);
                    } catch (const std::system_error& error) {
                      gone_ += error.code() == net::error::operation_aborted;
                    }
                  }));
  }
  void cancel() {
    for (auto& s : signals_) s.emit(net::cancellation_type::terminal);
  }
  int gone() const { return gone_; }

 private:
  net::io_context& io_;
  std::deque<net::cancellation_signal> signals_;
  int gone_ = 0;
};

}  // namespace lingering_tests

using namespace lingering_tests;

TEST_CASE("the cap of a policy holds at a server that works on when the callers have gone") {
  stubborn_server server;
  net::io_context io;
  http::client client{io, no_proxy};
  canigo::policy api{io, {.limits = canigo::limiter_options{.concurrency = 5}}};
  const http::request r = http::request{server.url()}.with_linger(1h);
  const auto call = [&]() -> net::awaitable<void> {
    const auto operation = [&] { return http::send_checked(client, r); };
    co_await api.run(operation);
  };
  callers first{io}, second{io};
  for (int i = 0; i < 5; ++i) first.add(call());
  run_until(io, [&] { return server.at_work() == 5; });
  first.cancel();
  run_until(io, [&] { return first.gone() == 5; });
  CHECK(api.stats().under_way == 0);
  CHECK(api.limits()->stats().held == 5);

  for (int i = 0; i < 7; ++i) second.add(call());
  run_until(io, [&] { return api.stats().under_way == 7; });
  io.poll();
  CHECK(api.limits()->stats().waiting == 7);
  CHECK(client.stats().running == 5);
  CHECK(client.stats().waiting == 0);
  server.let_answer(true);
  run_until(io, [&] { return api.stats().under_way == 0 && client.stats().running == 0; });
  CHECK(server.requests() == 12);
  CHECK(server.peak() == 5);
  CHECK(api.limits()->stats().held == 0);
}

TEST_CASE("a place is kept for the policy around a policy, too, behind any time limit") {
  stubborn_server server;
  net::io_context io;
  http::client client{io, no_proxy};
  const canigo::policy_options one{.timeout = 1h, .limits = canigo::limiter_options{.concurrency = 1}};
  canigo::policy outer{io, one}, inner{io, one};
  const http::request r = http::request{server.url()}.with_linger(1h);
  const auto send = [&] { return canigo::with_timeout(client.send(r), 1h); };
  const auto nested = [&]() -> net::awaitable<void> { co_await inner.run(send); };
  callers all{io};
  all.add(outer.run(nested));
  run_until(io, [&] { return server.at_work() == 1; });
  all.cancel();
  run_until(io, [&] { return all.gone() == 1; });
  CHECK(outer.limits()->stats().held == 1);
  CHECK(inner.limits()->stats().held == 1);
  server.let_answer(true);
  run_until(io, [&] { return client.stats().running == 0; });
  CHECK(outer.limits()->stats().held == 0);
  CHECK(inner.limits()->stats().held == 0);
}

TEST_CASE("the client's own bound holds, too, and a request that waits for its place is not sent") {
  stubborn_server server;
  net::io_context io;
  http::client client{io, {.connections_per_host = 2, .proxy = ""}};
  const http::request r = http::request{server.url()}.with_linger(1h);
  const auto call = [&]() -> net::awaitable<void> { co_await client.send(r); };
  callers all{io};
  for (int i = 0; i < 6; ++i) all.add(call());
  run_until(io, [&] { return server.at_work() == 2; });
  all.cancel();
  run_until(io, [&] { return all.gone() == 6; });
  CHECK(client.stats().running == 2);
  CHECK(client.stats().waiting == 0);
  server.let_answer(true);
  run_until(io, [&] { return client.stats().running == 0; });
  CHECK(server.requests() == 2);
}

TEST_CASE("a request lingers after its timeout, and then another one goes over its connection") {
  stubborn_server server;
  net::io_context io;
  http::client client{io, no_proxy};
  const http::request r = http::request{server.url()}.with_timeout(100ms).with_linger(1h);
  int ended = 0;
  // A slow machine may need several until one arrives in its time.
  while (server.requests() == 0) {
    const int before = ended;
    net::co_spawn(io, client.send(r), [&](std::exception_ptr e, const http::response&) {
      try {
        std::rethrow_exception(e);
      } catch (const std::system_error& error) {
        CHECK(error.code() == errc::timed_out);
        CHECK(said_by(error).find(", request.timeout of 100ms passed before ") != std::string::npos);
      }
      ++ended;
    });
    run_until(io, [&] { return ended > before; });
  }
  CHECK(client.stats().running >= 1);
  server.let_answer(true);
  run_until(io, [&] { return client.stats().running == 0; });
  const http::response next = run_to_end(io, client.get(server.url()));
  CHECK(next.reused);
  CHECK(next.body.size() == 100'000);
}

TEST_CASE("a request that lingers is not sent again, nor to where a redirect leads") {
  for (const bool redirects : {true, false}) {
    std::atomic<int> warm{0}, others{0};
    std::atomic<bool> may_go_on{false};
    scripted_server server{[&](peer& p) -> net::awaitable<void> {
      for (;;) {
        const std::string request = co_await p.request();
        if (request.starts_with("GET /warm ")) {
          ++warm;
          co_await p.send(ok("warm"));
          continue;
        }
        ++others;
        net::steady_timer pause{co_await net::this_coro::executor};
        while (!may_go_on) {
          pause.expires_after(5ms);
          co_await pause.async_wait(net::use_awaitable);
        }
        if (!redirects) co_return;
        co_await p.send("HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n");
      }
    }};
    net::io_context io;
    http::client client{io, no_proxy};
    CHECK(run_to_end(io, client.get(server.url("/warm"))).status == 200);
    const http::request r = http::request{server.url("/other")}.with_linger(1h);
    const auto call = [&]() -> net::awaitable<void> { co_await client.send(r); };
    callers all{io};
    all.add(call());
    run_until(io, [&] { return others == 1; });
    all.cancel();
    run_until(io, [&] { return all.gone() == 1; });
    may_go_on = true;
    run_until(io, [&] { return client.stats().running == 0; });
    CHECK(run_to_end(io, client.get(server.url("/warm"))).status == 200);
    CHECK(others == 1);
    CHECK(warm == 2);
  }
}

TEST_CASE("a request is not sent on when its caller has gone in the middle of the body") {
  // More than the buffers of the two sockets hold.
  const std::string body(64 << 20, 'x');
  std::atomic<bool> has_begun{false}, may_go_on{false}, has_ended{false};
  std::atomic<std::size_t> received{0};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    co_await p.up_to("\r\n\r\n");
    co_await p.up_to("x");
    has_begun = true;
    net::steady_timer pause{co_await net::this_coro::executor};
    while (!may_go_on) {
      pause.expires_after(5ms);
      co_await pause.async_wait(net::use_awaitable);
    }
    std::vector<char> part(1 << 20);
    for (std::error_code ec; !ec;) {
      received += co_await p.socket.async_read_some(net::buffer(part), net::redirect_error(net::use_awaitable, ec));
    }
    has_ended = true;
  }};
  net::io_context io;
  http::client client{io, no_proxy};
  http::request r = http::request{server.url()}.with_linger(1h);
  r.method = "POST";
  r.body = body;
  const auto call = [&]() -> net::awaitable<void> { co_await client.send(r); };
  callers all{io};
  all.add(call());
  run_until(io, [&] { return has_begun.load(); });
  all.cancel();
  run_until(io, [&] { return all.gone() == 1; });
  CHECK(client.stats().running == 0);
  may_go_on = true;
  run_until(io, [&] { return has_ended || received + 4096 >= body.size(); });
  CHECK(has_ended);
  CHECK(received < body.size() / 2);
}

TEST_CASE("a request with a body lingers once all of it was sent") {
  stubborn_server server;
  net::io_context io;
  http::client client{io, no_proxy};
  http::request r = http::request{server.url()}.with_linger(1h);
  r.method = "POST";
  r.body = std::string(1 << 20, 'x');
  const auto call = [&]() -> net::awaitable<void> { co_await client.send(r); };
  callers all{io};
  all.add(call());
  run_until(io, [&] { return server.at_work() == 1; });
  all.cancel();
  run_until(io, [&] { return all.gone() == 1; });
  CHECK(client.stats().running == 1);
  server.let_answer(true);
  run_until(io, [&] { return client.stats().running == 0; });
  CHECK(run_to_end(io, client.get(server.url())).reused);
}

TEST_CASE("a time limit around a request that lingers says where it was") {
  stubborn_server server;
  net::io_context io;
  http::client client{io, no_proxy};
  const std::string host = server.url().substr(7, server.url().size() - 8);
  const http::request r = http::request{server.url()}.with_linger(1h);
  std::string text;
  const auto call = [&]() -> net::awaitable<void> {
    try {
      co_await canigo::with_deadline(client.send(r), std::chrono::steady_clock::now() + 100ms);
    } catch (const std::system_error& e) {
      text = said_by(e);
    }
  };
  while (server.requests() == 0) {
    text.clear();
    net::co_spawn(io, call(), net::detached);
    run_until(io, [&] { return !text.empty(); });
  }
  CHECK(text == "at " + host + ": timed out");
  CHECK(client.stats().running >= 1);
  client.stop();
  run_until(io, [&] { return client.stats().running == 0; });
}

TEST_CASE("a request lingers no longer than it may") {
  stubborn_server server;
  net::io_context io;
  http::client client{io, no_proxy};
  const auto r = http::request{server.url()}.with_timeout(50ms).with_linger(50ms);
  CHECK(error_of(io, client.send(r)) == errc::timed_out);  // and the loop has nothing left then
  CHECK(client.stats().running == 0);
  CHECK(client.stats().finished == 1);
}

TEST_CASE("a request that lingers ends with its client or its context, and its place with it") {
  for (const bool context_first : {false, true}) {
    stubborn_server server;
    std::optional<net::io_context> io{std::in_place};
    std::optional<http::client> client{std::in_place, *io, no_proxy};
    canigo::policy_options one{.limits = canigo::limiter_options{.concurrency = 1}};
    std::optional<canigo::policy> api{std::in_place, *io, one};
    const http::request r = http::request{server.url()}.with_linger(1h);
    std::optional<callers> all{std::in_place, *io};
    const auto send = [&] { return client->send(r); };
    const auto call = [&]() -> net::awaitable<void> { co_await api->run(send); };
    all->add(call());
    run_until(*io, [&] { return server.at_work() == 1; });
    all->cancel();
    run_until(*io, [&] { return all->gone() == 1; });
    if (context_first) {
      io.reset();
      CHECK(api->limits()->stats().held == 0);
      continue;
    }
    client.reset();
    io->restart();
    io->run();  // nothing is left in it
    CHECK(api->limits()->stats().held == 0);
  }
}

TEST_CASE("an answer in time, and an error, are the same with linger as without") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, no_proxy};
  const http::response r = run_to_end(io, client.send(http::request{server.url()}.with_linger(1h)));
  CHECK(r.body == "x");
  CHECK(error_of(io, client.send(http::request{"http://127.0.0.1:1/"}.with_linger(1h))) ==
        http::error::could_not_connect);
  const auto negative = http::request{server.url()}.with_linger(-1ms);
  CHECK(text_of(io, client.send(negative)) == "request.linger is -1ms; allowed: 0s or more: invalid argument");
  client.stop();
  CHECK(error_of(io, client.send(http::request{server.url()}.with_linger(1h))) == errc::stopped);
}
