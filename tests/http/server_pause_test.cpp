#include "canigo/http/server_pause.hpp"

#include "canigo/error.hpp"
#include "canigo/http/call_error.hpp"
#include "canigo/limiter.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/time_source.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <system_error>

using namespace http_test;
using namespace std::chrono_literals;
using canigo::errc;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

http::response asking_for(std::string_view seconds) {
  http::response r;
  r.status = 429;
  r.headers.add("Retry-After", seconds);
  return r;
}

}  // namespace

TEST_CASE("http: a limit pauses for all as long as the server asks, and a shorter wish does not shorten it") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::limiter limit{io, {.rates = {{canigo::rate::per_second(10), 10}}}};
  http::server_pause pause{limit};
  time.run_for(10s);
  CHECK(pause.obey(http::response{}) == 0s);
  CHECK(limit.try_acquire());
  CHECK(pause.obey(asking_for("30")) == 30s);
  CHECK(pause.obey(asking_for("5")) == 5s);
  CHECK_FALSE(limit.try_acquire());
  time.run_for(29s);
  CHECK_FALSE(limit.try_acquire());
  time.run_for(1s);
  CHECK(limit.try_acquire());
  CHECK(pause.obey(asking_for("0")) == 0s);
  CHECK(limit.try_acquire());
}

TEST_CASE("http: a server's pause leaves a longer one as it is") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::limiter limit{io, {.concurrency = 1}};
  http::server_pause pause{limit}, of_another_host{limit};
  limit.pause();
  CHECK(pause.obey(asking_for("5")) == 5s);
  time.run_for(1h);
  CHECK_FALSE(limit.try_acquire());
  limit.resume();
  CHECK(limit.try_acquire());
  CHECK(pause.obey(asking_for("10")) == 10s);
  CHECK(of_another_host.obey(asking_for("5")) == 5s);
  time.run_for(9s);
  CHECK_FALSE(limit.try_acquire());
  time.run_for(1s);
  CHECK(limit.try_acquire());
}

TEST_CASE("http: a server that asks for years gets the longest pause") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::limiter limit{io, {.concurrency = 1}};
  http::server_pause pause{limit, 1min};
  CHECK(pause.obey(asking_for("999999999")) == 1min);
  time.run_for(59s);
  CHECK_FALSE(limit.try_acquire());
  time.run_for(1s);
  CHECK(limit.try_acquire());
  CHECK_THROWS_AS((http::server_pause{limit, 0s}), std::system_error);
}

TEST_CASE("http: a pause obeys answers good and bad") {
  const std::string used_up = "RateLimit: \"default\";r=0;t=60\r\n";
  for (const std::string& text :
       {ok("fine", used_up), "HTTP/1.1 503 No\r\nContent-Length: 0\r\nRetry-After: 60\r\n\r\n" + std::string{}}) {
    scripted_server server{answer(text)};
    net::io_context io;
    canigo::limiter limit{io, {.concurrency = 1}};
    http::server_pause pause{limit};
    http::client client{io, {.proxy = ""}};
    const auto send = [&]() -> net::awaitable<int> {
      const http::response r = co_await pause.send_checked(client, server.url());
      co_return r.status;
    };
    const auto error = error_of(io, send());
    CHECK((!error || error == errc::overloaded));
    CHECK_FALSE(limit.try_acquire());
    limit.stop();
  }
}
