#include "canigo/http/call_error.hpp"

#include "canigo/circuit_breaker.hpp"
#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/http/error.hpp"
#include "canigo/policy.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <asio/error.hpp>
#include <asio/ip/tcp.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <initializer_list>
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

namespace {

std::exception_ptr as_pointer(std::error_code code, const char* method, int status = 0, int redirects = 0) {
  http::response answer;
  answer.status = status;
  answer.redirects = redirects;
  return std::make_exception_ptr(http::call_error{code, {method, "http://x/"}, std::move(answer)});
}

std::optional<canigo::duration> wait_after(std::error_code code, const char* method, int status = 0,
                                           int redirects = 0) {
  return http::retry_if_harmless{}(as_pointer(code, method, status, redirects));
}

/// Answers with these, one after the other, and then with the last one.
scripted_server::script answers(std::vector<std::string> texts, std::atomic<int>& requests) {
  return [texts = std::move(texts), &requests](peer& p) -> net::awaitable<void> {
    for (;;) {
      co_await p.request();
      const auto at = std::min(static_cast<std::size_t>(requests++), texts.size() - 1);
      co_await p.send(texts[at]);
    }
  };
}

std::string with_status(const std::string& status, const std::string& more = "") {
  return "HTTP/1.1 " + status + " No\r\nContent-Length: 2\r\n" + more + "\r\nno";
}

}  // namespace

TEST_CASE("http: what was not executed may be sent again by any method, and the rest by those of no harm") {
  for (const auto code : std::array{http::error::could_not_connect, http::error::could_not_resolve_host}) {
    CHECK(wait_after(code, "POST") == 0s);
    CHECK(wait_after(code, "GET") == 0s);
    CHECK(http::retry_if_harmless{}(std::make_exception_ptr(std::system_error{code})) == 0s);
  }
  for (const int status : {429, 503, 529}) CHECK(wait_after(errc::overloaded, "POST", status) == 0s);
  for (const int status : {408, 500, 502, 504}) {
    CHECK(wait_after(http::error::server_failed, "GET", status) == 0s);
    CHECK_FALSE(wait_after(http::error::server_failed, "POST", status));
    CHECK_FALSE(wait_after(http::error::server_failed, "PATCH", status));
  }
  for (const std::error_code code : std::initializer_list<std::error_code>{
           errc::timed_out, http::error::no_response, http::error::partial_response, http::error::receive_failed}) {
    CHECK(wait_after(code, "PUT") == 0s);
    CHECK_FALSE(wait_after(code, "POST"));
    CHECK_FALSE(http::retry_if_harmless{}(std::make_exception_ptr(std::system_error{code})));
  }
  for (const int status : {501, 505, 599}) CHECK_FALSE(wait_after(http::error::server_failed, "GET", status));
  for (const std::error_code code : std::initializer_list<std::error_code>{
           net::error::operation_aborted, errc::stopped, errc::too_large, http::error::certificate_rejected,
           http::error::malformed_url, errc::invalid_argument}) {
    CHECK_FALSE(wait_after(code, "GET"));
  }
  CHECK_FALSE(http::retry_if_harmless{}(std::make_exception_ptr(1)));
}

TEST_CASE("http: a server that forbids another attempt gets none") {
  for (const int status : {429, 500, 503, 529}) {
    const std::error_code code = status == 500 ? http::error::server_failed : std::error_code{errc::overloaded};
    http::response answer;
    answer.status = status;
    answer.headers.add("x-should-retry", "false");
    CHECK_FALSE(http::call_error{code, {"GET", "http://x/"}, answer}.wait_before_retry());
    answer.headers.set("x-should-retry", "true");
    CHECK(http::call_error{code, {"GET", "http://x/"}, answer}.wait_before_retry() == 0s);
  }
}

TEST_CASE("http: behind a redirect a request may have been executed, whatever the last server says") {
  for (const int redirects : {1, 5}) {
    for (const auto code : std::array{http::error::could_not_connect, http::error::could_not_resolve_host}) {
      CHECK(wait_after(code, "GET", 0, redirects) == 0s);
      CHECK_FALSE(wait_after(code, "POST", 0, redirects));
    }
    for (const int status : {429, 503}) {
      CHECK(wait_after(errc::overloaded, "GET", status, redirects) == 0s);
      CHECK_FALSE(wait_after(errc::overloaded, "POST", status, redirects));
    }
  }
}

TEST_CASE("http: a POST that was answered with 303 is not made again when the other place can't be reached") {
  net::io_context io;
  net::ip::tcp::acceptor closed{io, net::ip::tcp::v4()};  // bound, and not listening
  closed.bind({net::ip::make_address("127.0.0.1"), 0});
  const std::string there = "http://127.0.0.1:" + std::to_string(closed.local_endpoint().port()) + "/";
  std::atomic<int> requests{0};
  scripted_server server{answers({with_status("303", "Location: " + there + "\r\n")}, requests)};
  http::client client{io, {.proxy = ""}};
  canigo::policy api{
      io,
      {.retry = canigo::retry_policy{.attempts = 3, .backoff = {.first = 1ms}, .retry_if = http::retry_if_harmless{}}}};
  const auto ask = [&](const char* method) -> net::awaitable<int> {
    const auto send_it = [&, method] { return http::send_checked(client, {method, server.url()}); };
    const http::response answer = co_await api.run(send_it);
    co_return answer.status;
  };
  CHECK(error_of(io, ask("POST")) == http::error::could_not_connect);
  CHECK(requests == 1);
  CHECK(error_of(io, ask("GET")) == http::error::could_not_connect);
  CHECK(requests == 4);
}

TEST_CASE("http: a breaker hears of the server's failures, and not of the client's") {
  const auto blames = [](std::error_code code) { return http::is_failure_of_server(as_pointer(code, "GET")); };
  CHECK(blames(errc::overloaded));
  CHECK(blames(errc::timed_out));
  CHECK(blames(http::error::server_failed));
  CHECK(blames(http::error::could_not_connect));
  CHECK(blames(http::error::no_response));
  CHECK_FALSE(blames(errc::stopped));
  CHECK_FALSE(blames(http::error::malformed_url));
  CHECK_FALSE(blames(http::error::address_refused));
  CHECK_FALSE(blames(std::make_error_code(std::errc::too_many_files_open)));
  CHECK(http::is_failure_of_server(std::make_exception_ptr(1)));
  CHECK_FALSE(http::is_failure_of_server(nullptr));
}

TEST_CASE("http: an answer by which the server fails is an error that has it, and any other is an answer") {
  std::atomic<int> requests{0};
  scripted_server server{answers(
      {with_status("429", "Retry-After: 7\r\n"), with_status("500"), with_status("404"), ok("fine")}, requests)};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  const auto send = [&]() -> net::awaitable<int> {
    const http::response answer = co_await http::send_checked(client, server.url());
    co_return answer.status;
  };
  const auto failure = [&] {
    try {
      run_to_end(io, send());
    } catch (const http::call_error& e) {
      return std::optional{e};
    }
    return std::optional<http::call_error>{};
  };
  const auto refused = failure();
  REQUIRE(refused);
  CHECK(refused->code() == errc::overloaded);
  CHECK(refused->response().status == 429);
  CHECK(refused->response().body == "no");
  CHECK(refused->wait_before_retry() == 7s);
  CHECK(std::string{refused->what()}.starts_with("at 127.0.0.1:"));
  CHECK(std::string{refused->what()}.find(", the answer had status 429") != std::string::npos);
  const auto failed = failure();
  REQUIRE(failed);
  CHECK(failed->code() == http::error::server_failed);
  CHECK(failed->wait_before_retry() == 0s);
  CHECK(run_to_end(io, send()) == 404);
  CHECK(run_to_end(io, send()) == 200);
}

TEST_CASE("http: a call without an answer is an error with its cause in words") {
  scripted_server server{silence()};
  net::io_context io;
  http::client client{io, {.timeout = 20ms, .proxy = ""}};
  const auto send = [&](http::request r) -> net::awaitable<int> {
    const http::response answer = co_await http::send_checked(client, std::move(r));
    co_return answer.status;
  };
  try {
    run_to_end(io, send(server.url()));
    FAIL("it has an answer");
  } catch (const http::call_error& e) {
    CHECK(e.code() == errc::timed_out);
    CHECK(e.response().status == 0);
    CHECK(std::string{e.what()}.find("client_options.timeout of 20") != std::string::npos);
    CHECK(e.wait_before_retry() == 0s);
  }
  CHECK(text_of(io, send({"CONNECT", server.url()})).find("request.method") != std::string::npos);
}

TEST_CASE("http: a policy tries again what does no harm") {
  std::atomic<int> requests{0};
  scripted_server server{answers({with_status("500"), with_status("503"), ok("fine"), with_status("500")}, requests)};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  canigo::policy api{
      io,
      {.breaker = canigo::circuit_breaker_options{.failed_if = http::is_failure_of_server},
       .retry = canigo::retry_policy{.attempts = 5, .backoff = {.first = 1ms}, .retry_if = http::retry_if_harmless{}}}};
  const auto ask = [&](const char* method) -> net::awaitable<int> {
    const auto send_it = [&, method] { return http::send_checked(client, {method, server.url()}); };
    const http::response answer = co_await api.run(send_it);
    co_return answer.status;
  };
  CHECK(run_to_end(io, ask("GET")) == 200);
  CHECK(requests == 3);
  CHECK(error_of(io, ask("POST")) == http::error::server_failed);
  CHECK(requests == 4);
}
