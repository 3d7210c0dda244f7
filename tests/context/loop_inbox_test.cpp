#include "canigo/detail/context/loop_inbox.hpp"

#include "canigo/run_busy_polling.hpp"
#include "canigo/semaphore.hpp"

#include "support/catch.hpp"

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace net = canigo::net;
using canigo::detail::loop_inbox;
using canigo::detail::suspended;

namespace loop_inbox_run {

/// Notes what becomes of it.
struct comer final : suspended {
  comer(std::vector<int>& l, int n) : log{l}, number{n} {}
  void resume() override {
    log.push_back(number);
    if (then) then();
  }
  void post() override { FAIL("a loop that lives has an inbox"); }
  void destroy() noexcept override { log.push_back(-number); }
  std::vector<int>& log;
  int number;
  std::function<void()> then;
};

/// Callers 1 to n.
struct comers {
  explicit comers(int n) {
    for (int i = 1; i <= n; ++i) all.emplace_back(log, i);
  }
  void come_to(net::io_context& loop) {
    for (auto& c : all) loop_inbox::of(loop).push(c);
  }
  std::vector<int> numbers() const {
    std::vector<int> n;
    for (const auto& c : all) n.push_back(c.number);
    return n;
  }
  std::vector<int> log;
  std::deque<comer> all;
};

/// Waits for a permit of another loop's semaphore, and yields while it has it.
net::awaitable<void> hold(canigo::semaphore& slots, int times) {
  for (int i = 0; i < times; ++i) {
    const auto held = co_await slots.acquire();
    co_await net::post(net::use_awaitable);
  }
}

}  // namespace loop_inbox_run

using namespace loop_inbox_run;

TEST_CASE("all that come before a loop turns to them take two handlers, and keep their order", "[loop_inbox]") {
  comers c{100};
  net::io_context loop{1};
  c.come_to(loop);
  CHECK(c.log.empty());
  CHECK(loop.poll() == 2);
  CHECK(c.log == c.numbers());
}

TEST_CASE("many that come leave the loop's other handlers their turn", "[loop_inbox]") {
  comers c{300};
  net::io_context loop{1};
  c.come_to(loop);
  std::size_t before_other = 0;
  net::post(loop, [&] { before_other = c.log.size(); });
  loop.poll();
  CHECK(before_other < 300);
  CHECK(c.log == c.numbers());
}

TEST_CASE("who comes during a turn waits for the next one, and the loop's other handlers go first", "[loop_inbox]") {
  comers c{3};
  net::io_context loop{1};
  auto& inbox = loop_inbox::of(loop);
  c.all[0].then = [&] { inbox.push(c.all[1]); };
  inbox.push(c.all[0]);
  net::post(loop, [&] { c.log.push_back(0); });
  loop.poll();
  CHECK(c.log == std::vector{1, 0, 2});
  loop.restart();
  inbox.push(c.all[2]);
  loop.poll();
  CHECK(c.log == std::vector{1, 0, 2, 3});
}

TEST_CASE("one who throws out of run() keeps nobody from coming", "[loop_inbox]") {
  comers c{3};
  net::io_context loop{1};
  c.all[0].then = [] { throw std::runtime_error{"mine"}; };
  c.come_to(loop);
  CHECK_THROWS_WITH(loop.poll(), "mine");
  CHECK(c.log == std::vector{1});
  loop.poll();
  CHECK(c.log == c.numbers());
}

TEST_CASE("one who takes time keeps nobody from a loop of two threads", "[loop_inbox]") {
  comers c{2};
  net::io_context loop{2};
  std::atomic<bool> has_come{false};
  c.all[0].then = [&] { has_come.wait(false); };
  c.all[1].then = [&] {
    has_come = true;
    has_come.notify_one();
  };
  c.come_to(loop);
  std::thread other{[&] { loop.run(); }};
  loop.run();
  other.join();
  CHECK(c.log.size() == 2);
}

TEST_CASE("who is in the inbox of a loop that ends is destroyed", "[loop_inbox]") {
  comers c{3};
  {
    net::io_context loop{1};
    c.come_to(loop);
  }
  CHECK(c.log == std::vector{-1, -2, -3});
}

TEST_CASE("another loop at the same place has an inbox of its own", "[loop_inbox]") {
  comers c{3};
  std::optional<net::io_context> loop;
  for (auto& one : c.all) {
    loop.emplace(1);
    loop_inbox::of(*loop).push(one);
    loop->poll();
  }
  CHECK(c.log == c.numbers());
}

TEST_CASE("each of many loops has its own", "[loop_inbox]") {
  comers c{40};
  std::deque<net::io_context> loops(40);
  for (std::size_t i = 0; i < 40; ++i) loop_inbox::of(loops[i]).push(c.all[i]);
  for (auto& loop : loops) CHECK(loop.poll() > 0);
  CHECK(c.log == c.numbers());
}

TEST_CASE("a loop that ends with ten thousand waiters of another loop's semaphore ends flat", "[loop_inbox]") {
  net::io_context home{1};
  canigo::semaphore slots{home, {.permits = 1}};
  int ended = 0;
  {
    net::io_context loop{1};
    // Each of them, destroyed, gives its permit to the next one.
    for (int i = 0; i < 10'000; ++i) {
      net::co_spawn(loop, hold(slots, 1), [&](const std::exception_ptr&) { ++ended; });
    }
    loop.poll_one();
    while (slots.stats().waiting < 9'999) loop.poll_one();
  }
  CHECK(ended == 0);
  CHECK(slots.try_acquire());
}

TEST_CASE("callers of another loop that a semaphore lets go together take two handlers there", "[loop_inbox]") {
  net::io_context home{1}, loop{1};
  canigo::semaphore slots{home, {.permits = 100}};
  auto all = slots.try_acquire({.tokens = 100});
  int granted = 0;
  std::vector<canigo::permit> held;
  for (int i = 0; i < 100; ++i) {
    slots.async_acquire({}, net::bind_executor(loop, [&](std::error_code ec, canigo::permit p) {
                          granted += ec ? 0 : 1;
                          held.push_back(std::move(p));
                        }));
  }
  all.reset();
  CHECK(loop.poll() == 2);
  CHECK(granted == 100);
}

TEST_CASE("two loops share a semaphore, and both poll before they sleep", "[loop_inbox]") {
  constexpr int each = 500;
  net::io_context first{1}, second{1};
  canigo::semaphore slots{first, {.permits = 2}};
  int ended_first = 0, ended_second = 0;
  for (int i = 0; i < 16; ++i) {
    net::co_spawn(first, hold(slots, each), [&](const std::exception_ptr& e) { ended_first += e ? 0 : 1; });
    net::co_spawn(second, hold(slots, each), [&](const std::exception_ptr& e) { ended_second += e ? 0 : 1; });
  }
  std::thread other{[&] { canigo::run_busy_polling(second); }};
  canigo::run_busy_polling(first);
  other.join();
  CHECK(ended_first == 16);
  CHECK(ended_second == 16);
  CHECK(slots.stats().granted == 2 * 16 * each);
  CHECK(slots.stats().waiting == 0);
}

TEST_CASE("who comes while threads look out is found at the end of that", "[loop_inbox]") {
  for (int round = 0; round < 10; ++round) {
    comers c{1};
    net::io_context loop{1};
    auto& inbox = loop_inbox::of(loop);
    std::atomic<bool> done{false};
    const auto look = [&] {
      do inbox.look_out();
      while (!done);
    };
    std::thread one{look}, two{look};
    while (loop_inbox::watched(loop.get_executor()) == nullptr) std::this_thread::yield();
    c.come_to(loop);
    done = true;
    one.join();
    two.join();
    loop.restart();  // a lookout that ends with nothing to do stops the loop
    CHECK(loop.poll() > 0);
    CHECK(c.log == c.numbers());
  }
}

TEST_CASE("a loop does not end with a caller who comes while a thread looks out", "[loop_inbox]") {
  for (int round = 0; round < 50; ++round) {
    comers c{1};
    net::io_context loop{1};
    auto work = net::make_work_guard(loop);
    auto& inbox = loop_inbox::of(loop);
    std::atomic<bool> done{false};
    std::thread looks{[&] {
      do inbox.look_out();
      while (!done);
    }};
    while (loop_inbox::watched(loop.get_executor()) == nullptr) std::this_thread::yield();
    c.come_to(loop);
    work.reset();  // what kept the loop running ends before the thread has seen the caller
    done = true;
    looks.join();
    CHECK_FALSE(loop.stopped());
    loop.run();
    CHECK(c.log == c.numbers());
  }
}
