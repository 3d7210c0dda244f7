// One process of the chaos test: takes part in a semaphore and in a quota that others share, or in a limiter with two
// units and a cap, and logs what it gets.
//
//     redis_worker URL LOG [NAME=NUMBER …]          the names are those of `settings`
//
// A line per event, in one write, with nanoseconds of the machine's clock: "S pid task at weight" when a task goes in,
// "E pid task at ok|lost" when it goes out, "G pid task asked got tokens" for tokens of the quota or of the first unit,
// "U pid task asked got amount" for the second unit, "D pid task at" for a task that is through, "R pid 0 at" once it
// heeds signals, "L pid 0 at since" when the machine has let its loop stand still. Ends with SIGTERM, or when all are
// through. With SIGUSR1 its tasks take their time, so that those of class 1 come to their turn. With SIGUSR2 it asks
// once more, for one permit and one token, for a second; one that has no tasks does nothing else.
//
// Its own clocks are wrong by so many seconds as `monotonic`, `boottime` and `realtime` say.
#include "canigo/redis/limiter.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"
#include "canigo/timeout.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <signal.h>
#include <string>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace net = canigo::net;
namespace redis = canigo::redis;
using namespace std::chrono_literals;
using std::chrono::microseconds;

namespace {

long shift_of_monotonic = 0;
long shift_of_boottime = 0;
long shift_of_realtime = 0;

long true_time(clockid_t clock, timespec* t) noexcept { return ::syscall(SYS_clock_gettime, clock, t); }

}  // namespace

/// In place of the system's, for all that this program is made of.
extern "C" int clock_gettime(clockid_t clock, timespec* t) noexcept {
  const auto result = static_cast<int>(true_time(clock, t));
  if (clock == CLOCK_MONOTONIC) t->tv_sec += shift_of_monotonic;
  if (clock == CLOCK_BOOTTIME) t->tv_sec += shift_of_boottime;
  if (clock == CLOCK_REALTIME) t->tv_sec += shift_of_realtime;
  return result;
}

namespace {

/// What can be said on the command line.
using settings = std::map<std::string, long>;
const settings defaults{
    {"permits", 15},     // of the semaphore; 0: no task wants any
    {"lease_ms", 400},   // of a permit
    {"tasks", 8},        // that contend for permits
    {"weight", 1},       // most that one takes
    {"hold_us", 500},    // most that one is held for
    {"once", 0},         // each task once only, and the process ends
    {"for_ever", 0},     // held until the process is killed
    {"deadline_ms", 0},  // of every fourth acquire; 0: none
    {"quarantine", 1},   // the guard of the semaphore
    {"rate", 0},         // of the quota, per second; 0: no task wants any
    {"burst", 1},        // of the quota
    {"quota_tasks", 4},  // that contend for tokens
    {"units", 0},        // the second rate of a limiter, per second; 0: there is none, but a semaphore and a quota
    {"units_burst", 1},  // of that rate; the first one is that of the quota, and the cap that of the semaphore
    {"closed", 1},       // the guard of the quota; 0: open without Redis, 2: a tenth of the rate
    {"pace_us", 0},      // between the tokens of one task
    {"give_up_ms", 10'000},
    {"group", 0},      // which semaphore and which quota
    {"monotonic", 0},  // seconds that the clock is wrong by
    {"boottime", 0},   // the same
    {"realtime", 0},   // the same
};

int log_file = -1;
bool is_ending = false;
bool is_calm = false;

long long now() {
  timespec t{};
  true_time(CLOCK_MONOTONIC, &t);
  return static_cast<long long>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

template <class... Values>
void note(const char* format, Values... values) {
  char line[128];
  const int length = std::snprintf(line, sizeof line, format, values...);
  if (::write(log_file, line, static_cast<std::size_t>(length)) != length) std::abort();
}

/// What one process does, and with what.
struct worker {
  settings is;
  redis::semaphore& slots;
  redis::scheduler& quota;
  redis::limiter* all;
  const int pid = static_cast<int>(::getpid());

  long operator[](const char* name) const { return is.at(name); }

  net::awaitable<void> work(redis::permit& p, int task, std::minstd_rand& random) {
    note("S %d %d %lld %d\n", pid, task, now(), static_cast<int>(p.held()));
    try {
      const auto most = static_cast<unsigned long>((*this)["hold_us"]);
      const auto how_long =
          (*this)["for_ever"] != 0 ? canigo::duration{1h} : canigo::duration{microseconds{random() % (most + 1)}};
      auto busy = canigo::sleep_for(how_long);
      co_await p.wrap(std::move(busy));
    } catch (const std::system_error&) {
      // Told that the lease is lost; said below.
    }
    note("E %d %d %lld %s\n", pid, task, now(), p.held() != 0 ? "ok" : "lost");
    p.release();
  }

  net::awaitable<void> contend(int task) {
    std::minstd_rand random{static_cast<unsigned>(pid * 100 + task)};
    while (!is_ending) {
      bool failed = false;
      try {
        canigo::request r{.priority = task % 2};
        r.tokens = 1 + random() % static_cast<unsigned long>((*this)["weight"]);
        if (const long ms = (*this)["deadline_ms"]; ms != 0 && random() % 4 == 0) {
          r.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{ms};
        }
        auto p = co_await slots.acquire(r);
        co_await work(p, task, random);
        if ((*this)["once"] != 0) break;
      } catch (const std::system_error&) {
        failed = true;  // Redis is away, or the time is up
      }
      if (failed || is_calm) co_await canigo::sleep_for(is_calm ? 100ms : 1ms);
    }
    note("D %d %d %lld\n", pid, task, now());
  }

  /// Wants a call, some units and a place, all in one step.
  net::awaitable<void> combine(int task) {
    std::minstd_rand random{static_cast<unsigned>(pid * 100 + task)};
    while (!is_ending) {
      bool failed = false;
      try {
        const std::uint64_t amount = 1 + random() % static_cast<unsigned long>((*this)["weight"]);
        canigo::request r{.priority = task % 2, .amounts = {{"units", amount}}};
        if (const long ms = (*this)["deadline_ms"]; ms != 0 && random() % 4 == 0) {
          r.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{ms};
        }
        const auto asked = now();
        auto p = co_await all->acquire(r);
        const auto got = now();
        note("G %d %d %lld %lld %d\n", pid, task, asked, got, 1);
        note("U %d %d %lld %lld %d\n", pid, task, asked, got, static_cast<int>(amount));
        co_await work(p, task, random);
      } catch (const std::system_error&) {
        failed = true;
      }
      if (failed || is_calm) co_await canigo::sleep_for(is_calm ? 100ms : 1ms);
    }
    note("D %d %d %lld\n", pid, task, now());
  }

  net::awaitable<void> spend(int task) {
    std::minstd_rand random{static_cast<unsigned>(pid * 100 + task)};
    while (!is_ending) {
      bool failed = false;
      try {
        const canigo::request r{.priority = task % 2, .tokens = 1 + random() % 3};
        const auto asked = now();
        co_await quota.acquire(r);
        note("G %d %d %lld %lld %d\n", pid, task, asked, now(), static_cast<int>(r.tokens));
      } catch (const std::system_error&) {
        failed = true;
      }
      if (failed || is_calm) co_await canigo::sleep_for(is_calm ? 100ms : 1ms);
      if (const long us = (*this)["pace_us"]; us != 0) co_await canigo::sleep_for(microseconds{us});
    }
  }

  net::awaitable<void> ask_for_a_permit() {
    try {
      auto p = co_await slots.acquire({.deadline = std::chrono::steady_clock::now() + 1s});
      note("S %d %d %lld %d\n", pid, 0, now(), static_cast<int>(p.held()));
      note("E %d %d %lld %s\n", pid, 0, now(), "ok");
    } catch (const std::system_error&) {
      // Redis is away.
    }
  }

  net::awaitable<void> ask_for_a_token() {
    try {
      const auto asked = now();
      co_await quota.acquire({.deadline = std::chrono::steady_clock::now() + 1s});
      note("G %d %d %lld %lld %d\n", pid, 0, asked, now(), 1);
    } catch (const std::system_error&) {
      // The same.
    }
  }
};

/// Three of these are less than what a limit waits for Redis before it does without.
constexpr long long still_ns = 60'000'000;

net::awaitable<void> watch_the_loop(int pid) {
  long long before = now();
  while (!is_ending) {
    co_await canigo::sleep_for(10ms);
    const long long at = now();
    if (at - before > still_ns) note("L %d %d %lld %lld\n", pid, 0, at, before);
    before = at;
  }
}

redis::failure_mode mode_of(long closed) {
  if (closed == 1) return redis::failure_mode::closed();
  return closed == 0 ? redis::failure_mode::open() : redis::failure_mode::local(0.1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  settings is = defaults;
  for (int i = 3; i < argc; ++i) {
    const std::string text = argv[i];
    const auto equals = text.find('=');
    if (equals == std::string::npos || !is.contains(text.substr(0, equals))) return 2;
    is[text.substr(0, equals)] = std::atol(text.c_str() + equals + 1);
  }
  shift_of_monotonic = is["monotonic"];
  shift_of_boottime = is["boottime"];
  shift_of_realtime = is["realtime"];
  ::signal(SIGPIPE, SIG_IGN);
  log_file = ::open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

  net::io_context io{1};
  redis::client client{io, argv[1], {.connect_timeout = 1s, .reconnect = {.first = 50ms, .cap = 1s}}};
  const auto at_least_1 = [&](const char* name) { return static_cast<std::uint64_t>(std::max(is[name], 1L)); };
  const std::string name = "chaos" + std::to_string(is["group"]);
  const auto give_up = std::chrono::milliseconds{is["give_up_ms"]};
  redis::semaphore slots{client,
                         name,
                         {.permits = at_least_1("permits"),
                          .lease = std::chrono::milliseconds{is["lease_ms"]},
                          .priorities = 2,
                          .give_up = give_up,
                          .quarantine = is["quarantine"] != 0}};
  redis::scheduler quota{client,
                         name,
                         {.rate = canigo::rate::per_second(static_cast<std::int64_t>(at_least_1("rate"))),
                          .burst = at_least_1("burst"),
                          .priorities = 2,
                          .on_failure = mode_of(is["closed"]),
                          .give_up = give_up}};
  std::optional<redis::limiter> all;
  if (const long units = is["units"]; units != 0) {
    all.emplace(
        client, name,
        redis::limiter_options{.rates = {{canigo::rate::per_second(static_cast<std::int64_t>(at_least_1("rate"))),
                                          at_least_1("burst"), 0, "calls"},
                                         {canigo::rate::per_second(units), at_least_1("units_burst"), 0, "units"}},
                               .concurrency = at_least_1("permits"),
                               .lease = std::chrono::milliseconds{is["lease_ms"]},
                               .priorities = 2,
                               .give_up = give_up,
                               .quarantine = is["quarantine"] != 0});
  }
  worker w{is, slots, quota, all ? &*all : nullptr};
  net::signal_set calm{io, SIGUSR1};
  calm.async_wait([&](std::error_code, int) { is_calm = true; });
  net::signal_set more{io, SIGUSR2};
  std::function<void()> wait_for_more = [&] {
    more.async_wait([&](std::error_code ec, int) {
      if (ec) return;
      net::co_spawn(io, w.ask_for_a_permit(), net::detached);
      net::co_spawn(io, w.ask_for_a_token(), net::detached);
      wait_for_more();
    });
  };
  wait_for_more();
  net::signal_set term{io, SIGTERM};
  term.async_wait([&](std::error_code, int) {
    is_ending = true;
    calm.cancel();
    more.cancel();
    slots.stop();
    quota.stop();
    if (all) all->stop();
  });
  int left = is["permits"] != 0 ? static_cast<int>(is["tasks"]) : 0;
  for (int task = left; task-- > 0;) {
    net::co_spawn(io, all ? w.combine(task) : w.contend(task), [&](std::exception_ptr) {
      if (--left == 0 && is["once"] != 0) term.cancel();
    });
  }
  if (is["rate"] != 0 && !all) {
    for (int task = 0; task < is["quota_tasks"]; ++task) net::co_spawn(io, w.spend(task), net::detached);
  }
  net::co_spawn(io, watch_the_loop(w.pid), net::detached);
  note("R %d %d %lld\n", w.pid, 0, now());
  io.run();
}
