// An ordinary Beast server with two new limits: a rate for each client, and a rate for the calls that the server itself
// makes. The lines marked with (*) are new. It uses Boost.Asio, so it links canigo-boost: docs/boost.md
#include <canigo/keyed.hpp>
#include <canigo/scheduler.hpp>

#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

namespace net = boost::asio;
namespace http = boost::beast::http;
using net::ip::tcp;
using namespace std::chrono_literals;

using request = http::request<http::string_body>;
using response = http::response<http::string_body>;

struct limits {                                     // (*)
  canigo::keyed_scheduler<std::string> per_client;  // (*) requests of each client
  canigo::scheduler outbound;                       // (*) calls of the server to the bank, all clients together
  explicit limits(net::io_context& io)              // (*)
      : per_client{io, {.rate = canigo::rate::per_second(5), .burst = 3, .most_keys = 100'000}},   // (*)
        outbound{io, {.rate = canigo::rate::per_second(20), .burst = 20, .initial_tokens = 2}} {}  // (*)
};

net::awaitable<std::string> ask_bank() { co_return "1 EUR = 1.08 USD\n"; }  // takes the place of another HTTP call

net::awaitable<response> answer(const request& q, limits& l) {
  response a{http::status::ok, q.version()};
  a.keep_alive(q.keep_alive());
  const std::string client{q["X-Client"]};
  if (!l.per_client.try_acquire(client)) {                                                        // (*)
    const auto wait = std::chrono::ceil<std::chrono::seconds>(l.per_client.retry_after(client));  // (*)
    a.result(http::status::too_many_requests);                                                    // (*)
    a.set(http::field::retry_after, std::to_string(wait.count()));                                // (*)
  } else if (q.target() == "/rate") {
    try {                                                                                // (*)
      co_await l.outbound.acquire({.deadline = std::chrono::steady_clock::now() + 1s});  // (*)
      a.body() = co_await ask_bank();
    } catch (const canigo::system_error&) {         // (*)
      a.result(http::status::service_unavailable);  // (*)
    }
  } else {
    a.result(http::status::not_found);
  }
  a.prepare_payload();
  co_return a;
}

net::awaitable<void> session(tcp::socket socket, limits& l) {
  boost::beast::flat_buffer buffer;
  for (bool goes_on = true; goes_on;) {  // also ends when the client disconnects, because a read then throws
    request q;
    co_await http::async_read(socket, buffer, q, net::use_awaitable);
    response a = co_await answer(q, l);
    goes_on = a.keep_alive();
    co_await http::async_write(socket, a, net::use_awaitable);
  }
}

void report(std::exception_ptr error) try {  // an error in one session must not end other sessions
  if (error) std::rethrow_exception(error);
} catch (const canigo::system_error& e) {
  if (e.code() != http::error::end_of_stream) fmt::print(stderr, "{}\n", e.what());
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

net::awaitable<void> listen(tcp::acceptor& acceptor, limits& l) {
  for (;;) {
    tcp::socket socket = co_await acceptor.async_accept(net::use_awaitable);
    net::co_spawn(acceptor.get_executor(), session(std::move(socket), l), report);
  }
}

int main() {
  net::io_context io;
  limits l{io};  // (*)
  tcp::acceptor acceptor{io, {net::ip::address_v4::loopback(), 0}};
  net::signal_set signals{io, SIGINT, SIGTERM};
  signals.async_wait([&](auto, int) { io.stop(); });
  net::co_spawn(io, listen(acceptor, l), rethrow);
  fmt::print("{}\n", acceptor.local_endpoint().port());
  std::fflush(stdout);
  io.run();
}
