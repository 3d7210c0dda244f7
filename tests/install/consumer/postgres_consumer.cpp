// A program outside of canigo's tree that asks a server which is not there.
#include <canigo/jobs/error.hpp>
#include <canigo/jobs/postgres_store.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <exception>
#include <system_error>

int main() {
  asio::io_context io;
  canigo::jobs::postgres_store_options options;
  options.reconnect_limit = std::chrono::milliseconds{1};
  canigo::jobs::postgres_store store{io, "host=/nowhere user=me dbname=shop", options};
  bool is_told = false;
  const auto ask = [&]() -> canigo::net::awaitable<void> {
    try {
      co_await store.count();
    } catch (const std::system_error& e) {
      is_told = e.code() == canigo::jobs::error::cannot_open;
    }
  };
  canigo::net::co_spawn(io, ask, [](std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
  });
  io.run();
  return is_told ? 0 : 1;
}
