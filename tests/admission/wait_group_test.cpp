#include "canigo/wait_group.hpp"

#include "canigo/error.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <atomic>
#include <memory>
#include <thread>

using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("a wait group lets all go when its count is zero", "[wait_group]") {
  limits_run run;
  wait_group work{run.io};
  work.add(3);
  for (int i = 1; i <= 3; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      co_await sleep_for(i * 10ms);
      work.done();
      if (i == 3) work.add();  // too late to hold anybody back
    });
  }
  for (const char* name : {"a", "b"}) {
    run.go([&, name]() -> net::awaitable<void> {
      co_await work.wait();
      run.note(name);
    });
  }
  run.time.run();
  CHECK(run.log == log_lines{"a@30", "b@30"});
  CHECK(work.count() == 1);
}

TEST_CASE("more can be added while somebody waits, and the group used again", "[wait_group]") {
  limits_run run;
  wait_group work{run.io};
  for (int round = 0; round < 2; ++round) {
    work.add();
    run.go([&]() -> net::awaitable<void> {
      co_await work.wait();
      run.note("done");
    });
    run.time.poll();
    work.add();
    work.done();
    run.time.poll();
    CHECK(run.log.size() == static_cast<std::size_t>(round));
    work.done();
    run.time.poll();
    CHECK(run.log.size() == static_cast<std::size_t>(round) + 1);
  }
}

TEST_CASE("a wait group destroyed with work left tells who waits", "[wait_group]") {
  limits_run run;
  auto work = std::make_unique<wait_group>(run.io);
  work->add(2);
  std::error_code told;
  work->async_wait([&](std::error_code ec) { told = ec; });
  run.time.poll();
  work.reset();
  run.time.run();
  CHECK(told == errc::stopped);
}

TEST_CASE("a wait group may outlive its context, with work left", "[wait_group]") {
  auto run = std::make_unique<limits_run>();
  wait_group work{run->io};
  work.add(2);
  work.async_wait([](std::error_code) { FAIL("called after its context"); });
  run->time.poll();
  run.reset();
  work.done();
  CHECK(work.count() == 1);
}

TEST_CASE("threads say done", "[wait_group][threads]") {
  net::io_context io;
  wait_group work{io};
  constexpr int each = 1000;
  work.add(3 * each);
  std::atomic<int> said{0};
  bool all = false;
  work.async_wait([&](std::error_code ec) { all = !ec && said == 3 * each; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < each; ++i) {
        ++said;
        work.done();
      }
    });
  }
  io.run();
  for (auto& t : threads) t.join();
  CHECK(all);
}
