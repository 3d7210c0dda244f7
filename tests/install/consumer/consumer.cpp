// A program outside of canigo's tree: everything it knows comes from the installed headers and packages.
#include <canigo/canigo.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <string>

asio::awaitable<void> go(canigo::scheduler& scheduler, int& granted) {
  for (int i = 0; i < 3; ++i) {
    co_await scheduler.acquire(0);
    ++granted;
  }
}

int main() {
  const auto rate = canigo::rate::per_second(10'000);
  asio::io_context io;
  canigo::scheduler scheduler{io, {.rate = rate}};
  int granted = 0;
  asio::co_spawn(io, go(scheduler, granted), asio::detached);
  io.run();

  const std::string version{canigo::version()};
  const std::string line = fmt::format("canigo {}: {} granted at {}", version, granted, rate);
  std::puts(line.c_str());
  return granted == 3 ? 0 : 1;
}
