// The clock of a real Redis is set, forward and back, while permits are out: the cap holds, and everybody is served.
#include "canigo/redis/limiter.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/member.hpp"
#include "redis/proxy.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace redis_test;
using namespace std::chrono_literals;
using std::chrono::microseconds;

namespace {

constexpr microseconds lease = 1s;

/// A Redis whose clock can be set.
class clocked_server {
 public:
  clocked_server() {
    const int file = ::open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(std::int64_t)) != 0) throw std::runtime_error{name_};
    void* page = ::mmap(nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (page == MAP_FAILED) throw std::runtime_error{name_};
    shift_ = static_cast<std::atomic<std::int64_t>*>(page);
    const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libredis_clock.so";
    ::setenv("CANIGO_CLOCK", name_.c_str(), 1);
    ::setenv("LD_PRELOAD", beside.c_str(), 1);
    server_.emplace();
    ::unsetenv("LD_PRELOAD");
    ::unsetenv("CANIGO_CLOCK");
  }
  ~clocked_server() { ::munmap(shift_, sizeof(std::int64_t)); }
  clocked_server(const clocked_server&) = delete;
  clocked_server& operator=(const clocked_server&) = delete;

  void set(microseconds by) { *shift_ += by.count(); }
  redis_server& operator*() { return *server_; }

 private:
  temporary_folder folder_;
  const std::string name_ = folder_ / "clock";
  std::atomic<std::int64_t>* shift_ = nullptr;
  std::optional<redis_server> server_;
};

/// Microseconds of its clock.
std::int64_t time_of(net::io_context& io, redis::client& c) {
  const auto parts = run(io, c.run("TIME")).elements();
  return std::stoll(parts[0].text()) * 1'000'000 + std::stoll(parts[1].text());
}

/// The most permits that are out at once, until the waiter has ended.
std::uint64_t most_until_end(net::io_context& io, const redis::permit& p, const waiting& w) {
  std::uint64_t most = 0;
  run_until(io, [&] {
    most = std::max(most, p.held() + w.p.held());
    return w.ended();
  });
  return most;
}

const redis::semaphore_options one_short_lease{.permits = 1, .lease = lease, .quarantine = false};

}  // namespace

TEST_CASE("the clock of the Redis under test is what it is set to") {
  clocked_server server;
  net::io_context io;
  redis::client c{io, (*server).url()};
  const auto before = time_of(io, c);
  server.set(1h);
  CHECK(time_of(io, c) - before >= 3'600'000'000);
  server.set(-2h);
  CHECK(time_of(io, c) - before < -3'000'000'000);
}

TEST_CASE("a step of Redis' clock lets nobody in beside a holder that is cut off [realtime]", "[realtime]") {
  for (const microseconds step : {lease / 20, lease / 10, lease / 4, lease * 2 / 5, lease * 3 / 4, microseconds{1h},
                                  -lease / 4, microseconds{-1h}}) {
    CAPTURE(step.count());
    clocked_server server;
    drained io;
    proxy between{io, (*server).folder() / "proxy.sock", (*server).path()};
    member a{io, between.url(), one_short_lease};
    member b{io, (*server).url(), one_short_lease};
    auto p = run(io, a.slots.acquire());
    waiting w{b.slots, {}};
    run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
    between.close();
    server.set(step);
    CHECK(most_until_end(io, p, w) == 1);
    CHECK(w.p.held() == 1);
  }
}

TEST_CASE("a step of Redis' clock lets nobody into a limiter beside a holder [realtime]", "[realtime]") {
  for (const microseconds step : {lease / 4, microseconds{1h}, microseconds{-1h}}) {
    CAPTURE(step.count());
    clocked_server server;
    drained io;
    proxy between{io, (*server).folder() / "proxy.sock", (*server).path()};
    const redis::limiter_options o{.rates = {{.rate = canigo::rate::per_second(1000), .burst = 10}},
                                   .concurrency = 1,
                                   .lease = lease,
                                   .quarantine = false};
    redis::client cut_off{io, between.url()}, other{io, (*server).url()};
    redis::limiter a{cut_off, "crm", o}, b{other, "crm", o};
    auto p = run(io, a.acquire());
    waiting w{b, {}};
    run_until(io, [&] { return b.stats().waiting_of_all == 1; });
    between.close();
    server.set(step);
    CHECK(most_until_end(io, p, w) == 1);
    CHECK(w.p.held() == 1);
  }
}

TEST_CASE("a process that comes after a great step of Redis' clock is not let in beside a holder [realtime]",
          "[realtime]") {
  for (const microseconds step : {lease * 3 / 4, microseconds{1h}}) {
    CAPTURE(step.count());
    clocked_server server;
    drained io;
    proxy between{io, (*server).folder() / "proxy.sock", (*server).path()};
    member a{io, between.url(), one_short_lease};
    member b{io, (*server).url(), one_short_lease};
    auto p = run(io, a.slots.acquire());
    between.close();
    server.set(step);
    waiting w{b.slots, {}};
    CHECK(most_until_end(io, p, w) == 1);
    CHECK(w.p.held() == 1);
  }
}

TEST_CASE("a step of Redis' clock in a quarantine lets nobody in beside a holder [realtime]", "[realtime]") {
  // As a machine does that has booted, and finds out what time it is.
  clocked_server server;
  drained io;
  const redis::semaphore_options o{.permits = 1, .lease = 2s};
  proxy between{io, (*server).folder() / "proxy.sock", (*server).path()};
  member a{io, between.url(), o};
  member b{io, (*server).url(), o};
  member c{io, (*server).url(), o};
  auto p = run(io, a.slots.acquire());
  between.close();
  run(io, b.client.run("FLUSHALL"));
  REQUIRE_FALSE(run(io, b.slots.acquire_now()));
  server.set(1min);
  waiting w{c.slots, {}};
  CHECK(most_until_end(io, p, w) == 1);
  CHECK(w.p.held() == 1);
}

TEST_CASE("however often Redis' clock is set, holders and who waits go on [realtime]", "[realtime]") {
  clocked_server server;
  drained io;
  // One that a busy machine does not lose.
  constexpr microseconds longer = 5s;
  const redis::semaphore_options o{.permits = 1, .lease = longer, .quarantine = false};
  member a{io, (*server).url(), o};
  member b{io, (*server).url(), o};
  auto p = run(io, a.slots.acquire());
  waiting w{b.slots, {}};
  run_until(io, [&] { return b.slots.stats().waiting_of_all == 1; });
  for (const microseconds step :
       {microseconds{10min}, microseconds{-1h}, longer / 2, microseconds{24h}, microseconds{-24h}, longer / 4}) {
    server.set(step);
    run_for(io, longer / 2);
    CHECK(p.held() == 1);
    CHECK_FALSE(w.ended());
  }
  const auto token = p.token();
  p.release();
  run_until(io, [&] { return w.ended(); });
  CHECK(w.p.held() == 1);
  CHECK(w.p.token() > token);
  CHECK(a.slots.stats().lost_leases == 0);
}

TEST_CASE("a quota does not give more because Redis' clock is set [realtime]", "[realtime]") {
  clocked_server server;
  drained io;
  redis::client client{io, (*server).url()};
  redis::scheduler quota{client, "crm", {.rate = rate::per_second(10), .burst = 5}};
  int granted = 0;
  const auto take = [&]() -> net::awaitable<void> {
    co_await quota.acquire(0);
    ++granted;
  };
  const auto since = steady::now();
  for (int i = 0; i < 25; ++i) net::co_spawn(io, take(), net::detached);
  run_until(io, [&] { return granted == 3; });
  for (const microseconds step : {microseconds{1h}, microseconds{-2h}, microseconds{24h}}) {
    server.set(step);
    run_for(io, 300ms);
  }
  run_until(io, [&] { return granted == 25; });
  // It starts empty: the 25th is due after 2.5 s.
  CHECK(steady::now() - since >= 2400ms);
}
