// A Beast client whose calls go through a policy: it respects the server's rate, and retries calls that the server
// refuses. Usage: beast_client PORT CLIENT CALLS. It uses Boost.Asio, so it links canigo-boost: docs/boost.md
#include <canigo/policy.hpp>

#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <fmt/core.h>

#include <cstdlib>
#include <exception>
#include <string>

namespace net = boost::asio;
namespace http = boost::beast::http;
using net::ip::tcp;
using namespace std::chrono_literals;

struct server {
  tcp::endpoint address;
  std::string client;
};

net::awaitable<std::string> get(const server& s) {
  boost::beast::tcp_stream stream{co_await net::this_coro::executor};
  co_await stream.async_connect(s.address, net::use_awaitable);
  http::request<http::empty_body> q{http::verb::get, "/rate", 11};
  q.set(http::field::host, "localhost");
  q.set("X-Client", s.client);
  co_await http::async_write(stream, q, net::use_awaitable);
  boost::beast::flat_buffer buffer;
  http::response<http::string_body> a;
  co_await http::async_read(stream, buffer, a, net::use_awaitable);
  // Throws an error that tells the policy how to judge the response.
  const bool is_too_much =
      a.result() == http::status::too_many_requests || a.result() == http::status::service_unavailable;
  if (is_too_much) throw canigo::system_error{canigo::errc::overloaded};
  co_return a.body();
}

net::awaitable<void> calls(const server& s, int number, canigo::policy& upstream) {
  const auto call = [&s] { return get(s); };
  int answers = 0;
  for (int i = 0; i < number; ++i) {
    try {
      co_await upstream.run(call);
      ++answers;
    } catch (const canigo::system_error& e) {  // Boost.Asio does not throw std::system_error
      fmt::print("call {}: {}\n", i + 1, e.code().message());
    }
  }
  fmt::print("{} answers to {} calls, {} attempts\n", answers, number, upstream.stats().operations);
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  net::io_context io;
  const server s{{net::ip::address_v4::loopback(), static_cast<net::ip::port_type>(std::atoi(argv[1]))}, argv[2]};
  canigo::policy upstream{io,
                          {.timeout = 60s,
                           .retry = canigo::retry_policy{.attempts = 3},
                           .limits = canigo::limiter_options{.rates = {{canigo::rate::per_second(4), 3}}}}};
  net::co_spawn(io, calls(s, std::atoi(argv[3]), upstream), rethrow);
  io.run();
}
