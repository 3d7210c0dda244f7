#include "canigo/time_source.hpp"

#include "canigo/testing/virtual_time.hpp"

#include "support/catch.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

std::ptrdiff_t open_files() {
  namespace fs = std::filesystem;
  std::error_code ec;
  const fs::directory_iterator files{"/proc/self/fd", ec};
  return ec ? 0 : std::distance(begin(files), end(files));
}

}  // namespace

TEST_CASE("the reactor, and the price it has for each turn of the loop, comes with the first deadline",
          "[time_source]") {
  const auto before = open_files();
  net::io_context io;
  auto& time = canigo::time_source::of(io.get_executor());
  io.poll();
  CHECK(open_files() == before);
  canigo::deadline d{[](canigo::deadline&, canigo::due) noexcept { std::terminate(); }};
  CHECK(time.arm(d, time.now() + 24h));
  CHECK((before == 0 || open_files() > before));
  CHECK(time.cancel(d));
}

TEST_CASE("a cancelled deadline is not called and leaves nothing armed", "[time_source]") {
  net::io_context io;
  auto& time = canigo::time_source::of(io.get_executor());
  canigo::deadline d{[](canigo::deadline&, canigo::due) noexcept { std::terminate(); }};
  CHECK(time.idle());
  CHECK(time.arm(d, time.now() + 24h));
  CHECK_FALSE(time.idle());
  CHECK(time.cancel(d));
  CHECK_FALSE(time.cancel(d));
  CHECK(time.idle());
  io.run();  // returns: no timer keeps it
}

namespace {

/// A deadline that notes when and why it is called.
struct noted : canigo::deadline {
  explicit noted(std::string n = {}, std::vector<std::string>* l = nullptr)
      : deadline{[](deadline& d, canigo::due why) noexcept {
          auto& self = static_cast<noted&>(d);
          ++(why == canigo::due::expired ? self.expired : self.shut_down);
          if (self.log != nullptr) self.log->push_back(self.name);
        }},
        name{std::move(n)},
        log{l} {}
  std::string name;
  std::vector<std::string>* log;
  int expired = 0;
  int shut_down = 0;
};

}  // namespace

TEST_CASE("deadlines are called once, when they are due, in order of time and then of arming", "[time_source]") {
  net::io_context io;
  canigo::testing::virtual_time virtual_time{io, canigo::time_point{}};
  auto& time = canigo::time_source::of(io.get_executor());
  std::vector<std::string> log;
  noted a{"a", &log}, b{"b", &log}, c{"c", &log}, d{"d", &log}, past{"past", &log};
  CHECK(time.arm(a, canigo::time_point{2s}));
  CHECK(time.arm(b, canigo::time_point{1s}));
  CHECK(time.arm(c, canigo::time_point{2s}));
  CHECK(time.arm(d, canigo::time_point{3s}));
  CHECK(time.arm(past, canigo::time_point::min()));
  virtual_time.run_until(canigo::time_point{2s});
  CHECK(log == std::vector<std::string>{"past", "b", "a", "c"});
  CHECK(time.cancel(d));
  virtual_time.run();
  CHECK(log.size() == 4);
  CHECK(time.idle());
}

TEST_CASE("a deadline that is armed again is moved", "[time_source]") {
  net::io_context io;
  canigo::testing::virtual_time virtual_time{io};
  auto& time = canigo::time_source::of(io.get_executor());
  noted d;
  time.arm(d, canigo::time_point{1s});
  time.arm(d, canigo::time_point{3s});
  virtual_time.run_for(2s);
  CHECK(d.expired == 0);
  time.arm(d, canigo::time_point{2500ms});
  virtual_time.run();
  CHECK(d.expired == 1);
  CHECK(virtual_time.elapsed() == 2500ms);
  time.arm(d, canigo::time_point{4s});  // and after it was called
  virtual_time.run();
  CHECK(d.expired == 2);
  CHECK_FALSE(time.cancel(d));
}

TEST_CASE("what is still armed when the context goes is told so", "[time_source]") {
  noted armed, cancelled;
  {
    net::io_context io;
    auto& time = canigo::time_source::of(io.get_executor());
    time.arm(armed, time.now() + 24h);
    time.arm(cancelled, time.now() + 24h);
    std::ignore = time.cancel(cancelled);
  }
  CHECK(armed.shut_down == 1);
  CHECK(armed.expired == 0);
  CHECK(cancelled.shut_down == 0);
}

TEST_CASE("deadlines in real time: an earlier one comes first, one taken back not at all", "[time_source]") {
  net::io_context io;
  auto& time = canigo::time_source::of(io.get_executor());
  std::vector<std::string> log;
  noted late{"late", &log}, early{"early", &log}, never{"never", &log};
  const auto start = time.now();
  time.arm(late, start + 20ms);
  time.arm(early, start + 1ms);
  time.arm(never, start + 2ms);
  std::ignore = time.cancel(never);
  io.run();  // returns when nothing is armed
  CHECK(log == std::vector<std::string>{"early", "late"});
  CHECK(time.now() >= start + 20ms);
}

TEST_CASE("a loop that has let go takes deadlines again", "[time_source]") {
  net::io_context io;
  auto& time = canigo::time_source::of(io.get_executor());
  noted d;
  for (int i = 0; i < 5; ++i) {
    time.arm(d, time.now() + 24h);
    std::ignore = time.cancel(d);
    time.arm(d, time.now() + 1us);
    io.restart();
    io.run();
    CHECK(d.expired == i + 1);
  }
}

TEST_CASE("threads arm and take back while others call: each deadline is called or taken back, not both",
          "[time_source]") {
  net::io_context io;
  auto guard = net::make_work_guard(io);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back([&io] { io.run(); });
  auto& time = canigo::time_source::of(io.get_executor());
  struct counter : canigo::deadline {
    counter() : deadline{[](deadline& d, canigo::due) noexcept { ++static_cast<counter&>(d).called; }} {}
    std::atomic<int> called{0};
  };
  {
    std::vector<std::jthread> users;
    for (int u = 0; u < 3; ++u) {
      users.emplace_back([&time, u] {
        counter d;
        for (int i = 0; i < 2000; ++i) {
          const int before = d.called;
          time.arm(d, time.now() + std::chrono::microseconds{(i + u) % 3 * 20});
          if (i % 2 == 0) std::this_thread::yield();
          if (!time.cancel(d)) {
            while (d.called == before) std::this_thread::yield();
          }
          if (d.called > before + 1) std::terminate();
        }
      });
    }
  }
  CHECK(time.idle());
  guard.reset();
}
