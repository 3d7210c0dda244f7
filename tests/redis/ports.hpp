#pragma once

#include "canigo/redis/client.hpp"

#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <system_error>
#include <vector>

namespace redis_test {

/// Returns different ports on which no process listens.
inline std::vector<std::string> free_ports(std::size_t n) {
  net::io_context io;
  std::vector<net::ip::tcp::acceptor> open;
  std::vector<std::string> ports;
  for (std::size_t i = 0; i < n; ++i) {
    open.emplace_back(io, net::ip::tcp::endpoint{net::ip::make_address("127.0.0.1"), 0});
    ports.push_back(std::to_string(open.back().local_endpoint().port()));
  }
  return ports;
}

/// Repeats a command until `good(answer)` is true. No answer counts as a bad answer.
template <class Good>
void ask_until(net::io_context& io, const std::string& url, const redis::command& c, Good good) {
  redis::client client{io, url};
  const auto give_up = steady::now() + std::chrono::seconds{60};
  for (bool is_good = false; !is_good;) {
    REQUIRE(steady::now() < give_up);
    try {
      is_good = good(run(io, client.run(c)));
    } catch (const std::system_error&) {
      // An exception means that the server does not answer yet.
    }
    if (!is_good) run_for(io, std::chrono::milliseconds{20});
  }
}

}  // namespace redis_test
