// The part of bench/http that measures http::client:
//
//     http_stream_bench read URL           reads the body in parts, and drops it
//     http_stream_bench download URL FILE
//     http_stream_bench idle URL COUNT     keeps COUNT exchanges open without reading, and prints the bytes of memory
//     of
//                                          each: of the heap, and of the process
#include "canigo/http/client.hpp"
#include "canigo/http/download.hpp"
#include "canigo/http/exchange.hpp"
#include "canigo/timeout.hpp"

#include "harness.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http = canigo::http;
namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

net::awaitable<void> read(http::client& client, std::string url) {
  http::exchange x = co_await client.open(std::move(url));
  std::vector<char> room(256 << 10);
  while (co_await x.read_some(net::buffer(room)) != 0) {
  }
}

net::awaitable<void> download(http::client& client, std::string url, std::string file) {
  const http::response r = co_await http::download(client, std::move(url), std::move(file));
  if (r.status != 200) std::abort();
}

std::int64_t memory_of_process() {
  std::ifstream file{"/proc/self/statm"};
  std::int64_t pages = 0;
  file >> pages >> pages;
  return pages * 4096;
}

net::awaitable<void> keep(http::client& client, std::string url, std::vector<http::exchange>& kept) {
  http::exchange x = co_await client.open(std::move(url));
  kept.push_back(std::move(x));
}

net::awaitable<void> keep_idle(http::client& client, std::string url, std::size_t count) {
  std::vector<http::exchange> kept;
  kept.reserve(count);
  co_await keep(client, url, kept);  // makes the allocations that happen only once
  const std::int64_t heap = bench::bytes_in_use(), process = memory_of_process();
  while (kept.size() < count) co_await keep(client, url, kept);
  co_await canigo::sleep_for(1s);  // by then the first bytes of each body have arrived
  const auto each = [&](std::int64_t all) { return all / static_cast<std::int64_t>(count - 1); };
  fmt::print("{} {}\n", each(bench::bytes_in_use() - heap), each(memory_of_process() - process));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 0;
  std::signal(SIGPIPE, SIG_IGN);
  const std::string_view what{argv[1]};
  const std::string more{argc > 3 ? argv[3] : ""};
  const std::size_t count = what == "idle" ? std::strtoull(more.c_str(), nullptr, 10) : 1;
  net::io_context io{1};
  http::client client{io,
                      {.connections = count,
                       .connections_per_host = canigo::unlimited,
                       .timeout = canigo::duration::max(),
                       .proxy = ""}};
  const auto rethrow = [](std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
  };
  if (what == "read") net::co_spawn(io, read(client, argv[2]), rethrow);
  if (what == "download") net::co_spawn(io, download(client, argv[2], more), rethrow);
  if (what == "idle") net::co_spawn(io, keep_idle(client, argv[2], count), rethrow);
  io.run();
}
