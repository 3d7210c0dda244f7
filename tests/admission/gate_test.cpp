#include "canigo/gate.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/post.hpp>

#include <atomic>
#include <memory>
#include <thread>

using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("a gate closes when the last has left, and lets nobody in meanwhile", "[gate]") {
  limits_run run;
  gate g{run.io};
  for (int i = 1; i <= 3; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      const permit inside = g.enter();
      co_await sleep_for(i * 10ms);
      run.note("left");
    });
  }
  run.time.poll();
  CHECK(g.count() == 3);
  for (const char* closer : {"closed", "closed too"}) {
    run.go([&, closer]() -> net::awaitable<void> {
      co_await g.close();
      run.note(closer);
    });
  }
  run.time.run_for(5ms);
  CHECK_FALSE(g.try_enter());
  CHECK_THROWS_AS(g.enter(), std::system_error);
  run.time.run();
  CHECK(run.log == log_lines{"left@10", "left@20", "left@30", "closed@30", "closed too@30"});
  CHECK_FALSE(g.try_enter());
  CHECK(g.count() == 0);
}

TEST_CASE("a gate shuts at the call of close, before anybody waits", "[gate]") {
  limits_run run;
  gate g{run.io};
  auto later = g.close();
  CHECK_FALSE(g.try_enter());
  run.go([&, c = std::move(later)]() mutable -> net::awaitable<void> { co_await std::move(c); });
  run.time.run();
}

TEST_CASE("an empty gate closes without waiting, again and again", "[gate]") {
  limits_run run;
  gate g{run.io};
  int closed = 0;
  run.go([&]() -> net::awaitable<void> {
    for (; closed < 300; ++closed) co_await g.close();
  });
  run.time.run();
  CHECK(closed == 300);
}

TEST_CASE("one who gives up waiting for a gate leaves it closed", "[gate]") {
  limits_run run;
  gate g{run.io};
  const permit inside = g.enter();
  net::cancellation_signal signal;
  std::error_code ended;
  run.go([&]() -> net::awaitable<void> { co_await g.close(); }, signal, ended);
  run.time.poll();
  signal.emit(net::cancellation_type::terminal);
  run.time.run();
  CHECK(ended == net::error::operation_aborted);
  CHECK_FALSE(g.try_enter());
}

TEST_CASE("a gate destroyed tells who waits, and permits outlive it and the context", "[gate]") {
  permit inside;
  std::error_code told;
  {
    limits_run run;
    auto g = std::make_unique<gate>(run.io);
    inside = g->enter();
    g->async_close([&](std::error_code ec) { told = ec; });
    run.time.poll();
    g.reset();
    run.time.run();
  }
  CHECK(told == errc::stopped);
  CHECK(inside.held() == 1);
}

TEST_CASE("the context may go while a gate is waited for", "[gate]") {
  auto run = std::make_unique<limits_run>();
  gate g{run->io};
  permit inside = g.enter();
  g.async_close([](std::error_code) { FAIL("called after its context"); });
  run->go([&]() -> net::awaitable<void> { co_await g.close(); });
  run->time.poll();
  run.reset();
  inside.release();
  CHECK(g.count() == 0);
}

TEST_CASE("threads enter while another closes: whoever came in is waited for", "[gate][threads]") {
  for (int round = 0; round < 50; ++round) {
    net::io_context io;
    gate g{io};
    std::atomic<int> inside{0};
    std::atomic<bool> closed{false};
    std::atomic<bool> violated{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (;;) {
          const auto p = g.try_enter();
          if (!p) return;
          ++inside;
          if (closed) violated = true;
          --inside;
        }
      });
    }
    g.async_close([&](std::error_code ec) {
      if (ec || inside != 0) violated = true;
      closed = true;
    });
    io.run();
    for (auto& t : threads) t.join();
    CHECK(closed);
    CHECK_FALSE(violated);
  }
}
