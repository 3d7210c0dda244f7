// Each worker owns a connection. The pool makes a connection when it is needed, replaces it when it breaks, and stops
// if connections break too often.
#include <canigo/resource_pool.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <exception>
#include <string>

using namespace std::chrono_literals;

asio::io_context io;
canigo::testing::virtual_time now{io};

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  fmt::print("{:5} ms  {}\n", now.elapsed() / 1ms, fmt::format(text, std::forward<Args>(args)...));
}

// Plays the role of a connection to a database.
struct connection {
  int number;
  asio::awaitable<std::string> query(std::string text) {
    co_await canigo::sleep_for(20ms);
    if (text == "crash") throw canigo::fatal_error{"connection reset"};
    co_return fmt::format("{} by connection {}", text, number);
  }
};

asio::awaitable<connection> open_connection() {
  static int connections = 0;
  co_await canigo::sleep_for(100ms);
  say("connected: {}", connections + 1);
  co_return connection{++connections};
}

asio::awaitable<void> story() {
  canigo::resource_pool<connection> pool{io,
                                         {.concurrency = 1,
                                          .restart = {.limit = 2, .backoff = canigo::backoff::constant(500ms)},
                                          .make = open_connection,
                                          .destroy = [](connection& c) { say("closed: {}", c.number); },
                                          .idle_timeout = 10s}};
  const auto ask = [&pool](std::string text) -> asio::awaitable<void> {
    // The pool sends the operation to a connection and never lends a connection out. So no caller can forget to return
    // a connection.
    // one.
    const auto query = [&text](connection& c, canigo::task_context&) { return c.query(text); };
    try {
      say("{}", co_await pool.run(query));
    } catch (const std::exception& e) {
      say("{}: {}", text, e.what());
    }
  };
  co_await ask("select 1");
  co_await ask("select 2");
  co_await ask("crash");  // the caller gets the error, and the worker gets a new connection
  co_await ask("select 3");
  co_await canigo::sleep_for(15s);  // longer than idle_timeout, so the pool destroys the connection

  co_await ask("crash");
  co_await ask("crash");  // this restart is one more than the limit allows within a minute
  try {
    co_await pool.closed();
  } catch (const canigo::fatal_error& e) {
    say("the pool gave up: {}", e.what());
  }
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

int main() {
  asio::co_spawn(io, story(), rethrow);
  now.run();
}
