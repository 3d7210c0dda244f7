// How to limit queries of Boost.MySQL: docs/adapters.md
// Usage: adapters_mysql SOCKET USER, which are the Unix domain socket and a user of a MySQL or MariaDB server
#include <canigo/policy.hpp>
#include <canigo/semaphore.hpp>
#include <canigo/timeout.hpp>
#include <canigo/with_limit.hpp>

#include <boost/asio.hpp>
#include <boost/mysql.hpp>
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <string>
#include <utility>

namespace net = boost::asio;
namespace mysql = boost::mysql;
using namespace std::chrono_literals;
using strand = net::strand<net::io_context::executor_type>;

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

net::awaitable<std::string> query(mysql::connection_pool& pool, std::string sql) {
  mysql::pooled_connection connection = co_await pool.async_get_connection(net::use_awaitable);
  mysql::results found;
  co_await connection->async_execute(sql, found, net::use_awaitable);
  co_return std::string{found.rows().at(0).at(0).as_string()};
}

net::awaitable<void> call(const char* who, int priority, mysql::connection_pool& pool, canigo::semaphore& slots,
                          const strand& own) {
  const std::string sql = fmt::format("SELECT '{}'", who);
  std::string text = co_await canigo::with_limit(query(pool, sql), slots, {.priority = priority});
  fmt::print("{}, on its own strand: {}\n", text, own.running_in_this_thread());
}

net::awaitable<void> call_in_a_hurry(mysql::connection_pool& pool, canigo::semaphore& slots) {
  try {
    co_await canigo::with_timeout(canigo::with_limit(query(pool, "SELECT 'hurry'"), slots), 1ms);
  } catch (const canigo::system_error& e) {
    fmt::print("in a hurry: {}, waiting: {}\n", e.code().message(), slots.stats().waiting);
  }
}

net::awaitable<void> sleep(mysql::connection_pool& pool, canigo::policy& upstream) {
  const auto start = std::chrono::steady_clock::now();
  try {
    co_await upstream.run([&pool] { return query(pool, "SELECT CONCAT(SLEEP(2), '')"); });
  } catch (const canigo::system_error& e) {
    fmt::print("SLEEP: {}\n", e.code().message());
  }
  std::string text = co_await query(pool, "SELECT 'another query'");
  fmt::print("{}, after the server's 2 seconds: {}\n", text, std::chrono::steady_clock::now() - start >= 1900ms);
}

net::awaitable<void> calls(mysql::connection_pool& pool, const strand& own, canigo::semaphore& slots,
                           canigo::policy& upstream) {
  canigo::permit taken = *slots.try_acquire();
  int left = 2;
  net::steady_timer both{own, net::steady_timer::time_point::max()};
  const auto ended = [&](std::exception_ptr error) {
    rethrow(error);
    if (--left == 0) both.cancel();
  };
  net::co_spawn(own, call("batch", 1, pool, slots, own), ended);
  net::co_spawn(own, call("user", 0, pool, slots, own), ended);
  co_await call_in_a_hurry(pool, slots);
  taken.release();
  boost::system::error_code cancelled;
  co_await both.async_wait(net::redirect_error(net::use_awaitable, cancelled));
  fmt::print("free in the end: {}\n", slots.try_acquire().has_value());
  co_await sleep(pool, upstream);
  pool.cancel();
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  net::io_context io;
  const strand own = net::make_strand(io);
  mysql::pool_params params;
  params.server_address.emplace_unix_path(argv[1]);
  params.username = argv[2];
  params.ssl = mysql::ssl_mode::disable;
  params.max_size = 1;
  mysql::connection_pool pool{own, std::move(params)};
  pool.async_run(net::detached);
  canigo::semaphore slots{own, {.permits = 1, .priorities = 2}};
  canigo::policy upstream{own, {.timeout = 300ms}};
  net::co_spawn(own, calls(pool, own, slots, upstream), rethrow);
  io.run();
}
