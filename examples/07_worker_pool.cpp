// A worker pool for a service: with classes, groups, timeouts, retries, and ways to stop. Time is virtual.
#include <canigo/strand_pool.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

using namespace std::chrono_literals;

asio::io_context io;
canigo::testing::virtual_time now{io};

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  fmt::print("{:5} ms  {}\n", now.elapsed() / 1ms, fmt::format(text, std::forward<Args>(args)...));
}

asio::awaitable<int> resize_image(int size) {
  co_await canigo::sleep_for(100ms);
  co_return size;
}

asio::awaitable<void> story() {
  canigo::strand_pool pool{io, {.concurrency = 2, .priorities = 3}};

  // A task is a handle: use it to check the state, to cancel, and to await the result as often as you like.
  canigo::task<int> task = pool.submit([] { return resize_image(640); }, {.priority = 1, .name = "resize"});
  say("submitted: {}", to_string(task.state()));
  const int size = co_await task.result();
  say("{}: {}", to_string(task.state()), size);

  // With g++ 12, an operation whose captures need a destructor needs a name before it is awaited. docs/pool.md explains
  // why.
  auto name = std::make_unique<std::string>("thumbnail");
  asio::awaitable<std::size_t> named = pool.run([name = std::move(name)] { return name->size(); });
  say("{}", co_await std::move(named));

  // All tasks of a group can be cancelled, and waited for, together.
  for (int i = 0; i < 5; ++i) (void)pool.try_post([] { return canigo::sleep_for(1s); }, {.group = 7});
  co_await canigo::sleep_for(10ms);
  say("{} tasks of group 7 cancelled", pool.cancel_group(7));
  co_await pool.wait_group(7);

  // The timeout limits each attempt. The next attempt starts when the previous attempt has really ended.
  const auto flaky = [](canigo::task_context& t) -> asio::awaitable<void> {
    say("attempt {}", t.attempt());
    if (t.attempt() == 1) co_await canigo::sleep_for(1h);
    if (t.attempt() == 2) throw std::runtime_error{"not yet"};
  };
  co_await pool.run(flaky, {.timeout = 50ms, .retry = {.attempts = 3, .backoff = canigo::backoff::constant(200ms)}});
  say("the third attempt succeeded");

  // Stop the pool: running tasks may finish within the grace time, and queued tasks end with `stopped`.
  for (int i = 0; i < 5; ++i) (void)pool.try_post([] { return canigo::sleep_for(3s); });
  co_await canigo::sleep_for(1s);
  const canigo::stop_report report = co_await pool.stop(canigo::stop_mode::finish_running, 500ms);
  say("stopped: {} submitted = {} succeeded + {} cancelled + {} stopped; {} were over the grace", report.submitted,
      report.succeeded, report.cancelled, report.stopped, report.escalated);
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

int main() {
  asio::co_spawn(io, story(), rethrow);
  now.run();
}
