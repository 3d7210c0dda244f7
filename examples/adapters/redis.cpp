// How to limit calls of Boost.Redis: docs/adapters.md
// Usage: adapters_redis SOCKET, which is the Unix domain socket of a redis-server
#include <canigo/policy.hpp>
#include <canigo/semaphore.hpp>
#include <canigo/timeout.hpp>
#include <canigo/with_limit.hpp>

#include <boost/asio.hpp>
#include <boost/redis/connection.hpp>
#include <boost/redis/src.hpp>
#include <fmt/core.h>

#include <chrono>
#include <exception>
#include <string>
#include <tuple>

namespace net = boost::asio;
namespace redis = boost::redis;
using namespace std::chrono_literals;
using strand = net::strand<net::io_context::executor_type>;

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

net::awaitable<std::string> get(redis::connection& store, std::string key) {
  redis::request request;
  request.push("GET", key);
  redis::response<std::string> answer;
  co_await store.async_exec(request, answer, net::use_awaitable);
  co_return std::get<0>(answer).value();
}

net::awaitable<void> wait_for_item(redis::connection& store) {
  redis::request request;
  request.push("BLPOP", "list", 2);  // the server answers after 2 seconds
  co_await store.async_exec(request, redis::ignore, net::use_awaitable);
}

net::awaitable<void> call(const char* who, int priority, redis::connection& store, canigo::semaphore& slots,
                          const strand& own) {
  std::string text = co_await canigo::with_limit(get(store, who), slots, {.priority = priority});
  fmt::print("{}: {}, on the strand of the connection: {}\n", who, text, own.running_in_this_thread());
}

net::awaitable<void> call_in_a_hurry(redis::connection& store, canigo::semaphore& slots) {
  try {
    co_await canigo::with_timeout(canigo::with_limit(get(store, "user"), slots), 1ms);
  } catch (const canigo::system_error& e) {
    fmt::print("in a hurry: {}, waiting: {}\n", e.code().message(), slots.stats().waiting);
  }
}

net::awaitable<void> block(redis::connection& store, canigo::policy& upstream) {
  const auto start = std::chrono::steady_clock::now();
  try {
    co_await upstream.run([&store] { return wait_for_item(store); });
  } catch (const canigo::system_error& e) {
    fmt::print("BLPOP: {}\n", e.code().message());
  }
  std::string text = co_await get(store, "user");
  const bool is_late = std::chrono::steady_clock::now() - start >= 1900ms;
  fmt::print("{}, after the server's 2 seconds: {}\n", text, is_late);
}

net::awaitable<void> set(redis::connection& store) {
  redis::request request;
  request.push("MSET", "user", "first", "batch", "second");
  co_await store.async_exec(request, redis::ignore, net::use_awaitable);
}

net::awaitable<void> calls(redis::connection& store, const strand& own, canigo::semaphore& slots,
                           canigo::policy& upstream) {
  co_await set(store);
  canigo::permit taken = *slots.try_acquire();
  int left = 2;
  net::steady_timer both{own, net::steady_timer::time_point::max()};
  const auto ended = [&](std::exception_ptr error) {
    rethrow(error);
    if (--left == 0) both.cancel();
  };
  net::co_spawn(own, call("batch", 1, store, slots, own), ended);
  net::co_spawn(own, call("user", 0, store, slots, own), ended);
  co_await call_in_a_hurry(store, slots);
  taken.release();
  boost::system::error_code cancelled;
  co_await both.async_wait(net::redirect_error(net::use_awaitable, cancelled));
  fmt::print("free in the end: {}\n", slots.try_acquire().has_value());
  co_await block(store, upstream);
  store.cancel();
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  net::io_context io;
  const strand own = net::make_strand(io);
  redis::connection store{own, redis::logger{redis::logger::level::err}};
  redis::config config;
  config.unix_socket = argv[1];
  canigo::semaphore slots{own, {.permits = 1, .priorities = 2}};
  canigo::policy upstream{own, {.timeout = 100ms}};
  store.async_run(config, net::bind_executor(own, [](boost::system::error_code) {}));
  net::co_spawn(own, calls(store, own, slots, upstream), rethrow);
  io.run();
}
