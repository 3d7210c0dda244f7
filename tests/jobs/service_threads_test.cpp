#include "canigo/jobs/error.hpp"
#include "canigo/jobs/service.hpp"
#include "canigo/jobs/sqlite_store.hpp"
#include "canigo/task_group.hpp"
#include "canigo/timeout.hpp"

#include "sqlite_world.hpp"
#include "support/catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <system_error>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// Hands a job in to one service, and waits for its end at the other one.
net::awaitable<void> hand_in_and_wait(jobs::service& in, jobs::service& out, int number, std::atomic<int>& ended) {
  const std::string payload = std::to_string(number);
  const auto id = co_await in.submit("work", payload);
  const bool cancels = number % 10 == 0;
  if (cancels) co_await out.cancel(id);
  try {
    const std::string result = co_await out.result(id);
    if (result == "did " + payload) ++ended;
  } catch (const std::system_error& e) {
    if (cancels && e.code() == jobs::error::job_cancelled) ++ended;
  }
}

}  // namespace

TEST_CASE("services on several threads share the jobs of a file", "[jobs]") {
  constexpr int count = 200;
  scratch_folder folder;
  net::thread_pool pool{3};
  const auto executor = pool.get_executor();
  jobs::sqlite_store_options so;
  so.waits_for_disk = false;
  jobs::sqlite_store first_store{executor, folder.file(), so};
  jobs::sqlite_store second_store{executor, folder.file(), so};
  jobs::service_options o;
  o.queues.push_back({.concurrency = 8, .retry = backoff::constant(1ms)});
  jobs::service first{executor, first_store, o};
  jobs::service second{executor, second_store, o};
  std::atomic<int> begun{0}, ended{0};
  for (auto* s : {&first, &second}) {
    s->handle("work", [&](jobs::job& j) -> net::awaitable<std::string> {
      ++begun;
      j.progress("half");
      co_await sleep_for(1ms);
      if (j.attempt() == 1 && j.id() % 7 == 0) throw std::runtime_error{"the first time"};
      co_return "did " + j.payload();
    });
    s->start();
  }
  task_group group{executor};
  for (int i = 0; i < count; ++i) {
    group.spawn(i % 2 == 0 ? hand_in_and_wait(first, second, i, ended) : hand_in_and_wait(second, first, i, ended));
  }
  const auto main = [&]() -> net::awaitable<void> {
    co_await group.join();
    co_await first.stop();
    co_await second.stop(stop_mode::cancel_all);
  };
  net::co_spawn(pool, main, net::use_future).get();
  CHECK(ended == count);
  CHECK(begun >= count - count / 10);
  first_store.stop();
  second_store.stop();
  pool.join();
}
