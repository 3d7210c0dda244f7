// A policy protects a program from an HTTP API, and the API from the program: a quota, a cap, retries, a breaker and
// deadlines. The server of this example counts calls, requests a pause once, fails for a while, and recovers.
#include <canigo/http/call_error.hpp>
#include <canigo/http/client.hpp>
#include <canigo/http/server_pause.hpp>
#include <canigo/policy.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace http = canigo::http;
using namespace std::chrono_literals;

constexpr auto rethrow = [](std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
};

// Plays the role of a server of another company.
class upstream {
 public:
  explicit upstream(asio::io_context& io) : io_{io}, acceptor_{io, {asio::ip::make_address("127.0.0.1"), 0}} {
    asio::co_spawn(io_, accept(), asio::detached);
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}/prices", acceptor_.local_endpoint().port()); }
  void ask_for_pause() { asks_for_pause_ = true; }
  void fail(bool f) { fails_ = f; }
  void be_silent() { is_silent_ = true; }
  int calls() const { return static_cast<int>(at_.size()); }
  // The longest time between two successive calls, from call number `from` on.
  canigo::duration longest_silence(int from) const {
    canigo::duration longest{};
    for (auto i = static_cast<std::size_t>(from) + 1; i < at_.size(); ++i)
      longest = std::max(longest, at_[i] - at_[i - 1]);
    return longest;
  }
  void close() { acceptor_.close(); }

 private:
  asio::awaitable<void> accept() {
    for (;;) {
      asio::ip::tcp::socket s = co_await acceptor_.async_accept(asio::use_awaitable);
      asio::co_spawn(io_, serve(std::move(s)), asio::detached);
    }
  }
  asio::awaitable<void> serve(asio::ip::tcp::socket s) {
    for (std::string text;;) {
      text.erase(0, co_await asio::async_read_until(s, asio::dynamic_buffer(text), "\r\n\r\n", asio::use_awaitable));
      at_.push_back(std::chrono::steady_clock::now());
      if (std::exchange(is_silent_, false)) continue;
      std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n42";
      if (std::exchange(asks_for_pause_, false)) {
        answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
      } else if (fails_) {
        answer = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
      }
      co_await asio::async_write(s, asio::buffer(answer), asio::use_awaitable);
    }
  }

  asio::io_context& io_;
  asio::ip::tcp::acceptor acceptor_;
  bool asks_for_pause_ = false;
  bool fails_ = false;
  bool is_silent_ = false;
  std::vector<std::chrono::steady_clock::time_point> at_;
};

class prices {
 public:
  prices(asio::io_context& io, std::string url)
      : client_{io,
                {.connections_per_host = 4,
                 .timeout = 1s,  // (6) limits one request; unlike a policy timeout, its error knows the method
                 .proxy = ""}},
        api_{io, options(client_)},
        url_{std::move(url)} {}

  asio::awaitable<std::string> get(int priority) {
    const auto call = [this] { return pause_.send_checked(client_, url_); };
    http::response answer = co_await api_.run(call, {.priority = priority});
    co_return std::move(answer.body);
  }

 private:
  static canigo::policy_options options(const http::client& client) {
    return {
        .timeout = 5s,                                                 // (1) limits a call with its waits and retries
        .breaker = canigo::circuit_breaker_options{.least_calls = 10,  // (2) stops calls while the server fails
                                                   .window = 1s,
                                                   .open_for = 500ms,
                                                   .failed_if = http::is_failure_of_server},
        // (3) never repeats a POST after status 500
        .retry = canigo::retry_policy{.attempts = 3, .retry_if = http::retry_if_harmless{}},
        .limits = canigo::limiter_options{.rates = {{canigo::rate::per_second(50), 5}},  // (4) the quota
                                          .concurrency = client.connections_per_host(),  // (5) the cap
                                          .priorities = 2},
    };
  }

  http::client client_;
  canigo::policy api_;
  http::server_pause pause_{*api_.limits()};  // (7) applies Retry-After and RateLimit to all calls
  std::string url_;
};

// Makes `calls` calls, five at a time, and returns how many got an answer.
asio::awaitable<int> answers(prices& p, int calls) {
  int good = 0, started = 0, running = 5;
  const auto executor = co_await asio::this_coro::executor;
  const auto work = [&]() -> asio::awaitable<void> {
    while (started++ < calls) {
      try {
        const std::string price = co_await p.get(1);
        good += price == "42";
      } catch (const std::system_error&) {
      }
    }
    --running;
  };
  for (int i = running; i > 0; --i) asio::co_spawn(executor, work(), rethrow);
  while (running > 0) co_await canigo::sleep_for(5ms);
  co_return good;
}

asio::awaitable<void> day(prices& p, upstream& server) {
  const auto start = std::chrono::steady_clock::now();
  int good = co_await answers(p, 55);
  const bool is_kept = std::chrono::steady_clock::now() - start >= 990ms;
  fmt::print("a good day:      55 calls, {} answers; the quota of 50/s is {}\n", good, is_kept ? "kept" : "broken");

  int before = server.calls();
  server.ask_for_pause();
  good = co_await answers(p, 10);
  fmt::print("Retry-After: 1:  10 calls, {} answers; the server had {} s of silence\n", good,
             server.longest_silence(before) >= 900ms ? 1 : 0);

  before = server.calls();
  server.be_silent();
  good = co_await answers(p, 1);
  fmt::print("it is silent:    1 call, {} answer; {} requests reached the server\n", good, server.calls() - before);

  server.fail(true);
  before = server.calls();
  good = co_await answers(p, 200);
  const int reached = server.calls() - before;
  fmt::print("it fails:        200 calls, {} answers; {} than 100 requests reached the server\n", good,
             reached < 100 ? "less" : "more");

  server.fail(false);
  for (int probes = 0; probes < 3;) {
    co_await canigo::sleep_for(100ms);
    probes += co_await answers(p, 1);
  }
  good = co_await answers(p, 20);
  fmt::print("it comes back:   20 calls, {} answers\n", good);
  server.close();
}

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  asio::io_context io;
  upstream server{io};
  prices p{io, server.url()};
  asio::co_spawn(io, day(p, server), [&](std::exception_ptr error) {
    io.stop();
    rethrow(error);
  });
  io.run();
}
