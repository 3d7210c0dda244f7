// The scheduler by the clock on the wall. [realtime]: nothing here is exact but this: no grant comes early.

#include "canigo/scheduler.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

constexpr duration may_be_late = is_sanitized ? 50ms : 20ms;

time_point clock_now() { return std::chrono::steady_clock::now(); }

struct noted_grant {
  std::string who;
  duration at;
};

/// A scheduler, its clock, and what it granted when.
class real_run {
 public:
  explicit real_run(const scheduler_options& options) : scheduler_{io_, options} {}

  void wait(duration d) {
    net::co_spawn(io_, sleep_for(d), net::detached);
    run();
  }

  void acquire(std::string who, int priority) {
    net::co_spawn(io_, acquiring(*this, std::move(who), priority), net::detached);
  }

  const std::vector<noted_grant>& run() {
    io_.restart();
    io_.run();
    return grants_;
  }

  duration elapsed() const { return clock_now() - start_; }

 private:
  static net::awaitable<void> acquiring(real_run& r, std::string who, int priority) {
    co_await r.scheduler_.acquire(priority);
    r.grants_.push_back({std::move(who), r.elapsed()});
  }

  net::io_context io_;
  time_point start_ = clock_now();  // before the scheduler's own, so that nothing right seems early
  scheduler scheduler_;
  std::vector<noted_grant> grants_;
};

/// A machine that is held up makes everybody late, so of 30 tries the best counts. None excuses one that is early.
void in_time(const std::function<duration()>& lateness_of_a_try) {
  duration best = duration::max();
  for (int i = 0; i < 30 && best > may_be_late; ++i) best = std::min(best, lateness_of_a_try());
  CHECK(best <= may_be_late);
}

/// "who at-in-ms" each: fails where the order is another or one is early; else how late the latest is.
duration compare(const std::vector<noted_grant>& grants,
                 const std::vector<std::pair<std::string_view, int>>& expected) {
  REQUIRE(grants.size() == expected.size());
  duration latest{};
  for (std::size_t i = 0; i < grants.size(); ++i) {
    INFO(i << ": " << grants[i].who << " at " << to_string(grants[i].at));
    CHECK(grants[i].who == expected[i].first);
    const duration late = grants[i].at - std::chrono::milliseconds{expected[i].second};
    CHECK(late >= 0ns);
    latest = std::max(latest, late);
  }
  return latest;
}

}  // namespace

TEST_CASE("S1 in real time", "[scheduler][realtime]") {
  in_time([] {
    real_run r{{.rate = rate::per_second(5)}};
    for (const char* who : {"a", "b", "c", "d", "e"}) r.acquire(who, 0);
    return compare(r.run(), {{"a", 200}, {"b", 400}, {"c", 600}, {"d", 800}, {"e", 1000}});
  });
}

TEST_CASE("S2 in real time: what gathered goes at once, and the rest at the rate", "[scheduler][realtime]") {
  in_time([] {
    real_run r{{.rate = rate::per_second(5), .burst = 5}};
    r.wait(1s);
    // The bucket brims: the schedule goes on from here.
    const duration asked = r.elapsed();
    for (const char* who : {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}) r.acquire(who, 0);
    std::vector<noted_grant> grants = r.run();
    for (auto& g : grants) g.at -= asked;
    return compare(grants, {{"0", 0},
                            {"1", 0},
                            {"2", 0},
                            {"3", 0},
                            {"4", 0},
                            {"5", 200},
                            {"6", 400},
                            {"7", 600},
                            {"8", 800},
                            {"9", 1000}});
  });
}

TEST_CASE("S3 in real time: by priority, then by arrival", "[scheduler][realtime]") {
  in_time([] {
    real_run r{{.rate = rate::per_second(5), .priorities = 3}};
    for (const char* batch : {"a", "b", "c"}) {
      for (int priority = 0; priority < 3; ++priority) r.acquire(std::to_string(priority) + batch, priority);
    }
    return compare(r.run(), {{"0a", 200},
                             {"0b", 400},
                             {"0c", 600},
                             {"1a", 800},
                             {"1b", 1000},
                             {"1c", 1200},
                             {"2a", 1400},
                             {"2b", 1600},
                             {"2c", 1800}});
  });
}

TEST_CASE("S4 in real time: a burst in the order of arrival, then by priority", "[scheduler][realtime]") {
  in_time([] {
    real_run r{{.rate = rate{10, 3s}, .burst = 5, .priorities = 3}};
    r.wait(1500ms);
    const duration asked = r.elapsed();
    for (int batch = 0; batch < 4; ++batch) {
      for (int priority = 0; priority < 3; ++priority) {
        r.acquire(std::to_string(priority) + "b" + std::to_string(batch), priority);
      }
    }
    std::vector<noted_grant> grants = r.run();
    for (auto& g : grants) g.at -= asked;
    return compare(grants, {{"0b0", 0},
                            {"1b0", 0},
                            {"2b0", 0},
                            {"0b1", 0},
                            {"1b1", 0},
                            {"0b2", 300},
                            {"0b3", 600},
                            {"1b2", 900},
                            {"1b3", 1200},
                            {"2b1", 1500},
                            {"2b2", 1800},
                            {"2b3", 2100}});
  });
}

// ---- S14: saturated ----

namespace {

/// How long this thread has been ready to run while a processor did something else. Zero where the kernel doesn't say.
duration kept_waiting_by_others() {
  std::ifstream file{"/proc/thread-self/schedstat"};
  std::int64_t ran = 0;
  std::int64_t waited = 0;
  file >> ran >> waited;
  return duration{waited};
}

struct saturated_run {
  std::int64_t granted = 0;
  duration machine_busy{};  // the part of the span in which others had the processor
};

/// Loops of acquires, until `span` has passed. Fails where a grant came before its token was due.
saturated_run granted_when_saturated(const rate& r, int callers, duration span) {
  net::io_context io{1};
  const duration others_before = kept_waiting_by_others();
  const time_point start = clock_now();
  scheduler s{io, {.rate = r}};
  std::int64_t granted = 0;
  std::int64_t early = 0;
  const auto caller = [](scheduler& of, const rate& at, time_point from, std::int64_t& count,
                         std::int64_t& too_early) -> net::awaitable<void> {
    for (;;) {
      co_await of.acquire();
      ++count;
      if (count > (clock_now() - from).count() * at.tokens() / at.period().count()) ++too_early;
    }
  };
  for (int i = 0; i < callers; ++i) net::co_spawn(io, caller(s, r, start, granted, early), net::detached);
  io.run_until(start + span);
  CHECK(early == 0);
  return {granted, std::min(kept_waiting_by_others() - others_before, span)};
}

}  // namespace

TEST_CASE("S14 in real time: saturated, the rate is kept and never exceeded", "[scheduler][realtime]") {
  const duration span = 400ms;
  const int callers = 500;                          // as many as wait while one late wake-up is caught up
  const double share = is_sanitized ? 0.95 : 0.99;  // to make so many callers takes some of the span, then
  for (const std::int64_t per_second : {1'000, 20'000, 100'000, 1'000'000}) {
    const auto due = static_cast<double>(per_second) * 0.4;
    double granted = 0;
    double possible = 0;
    double expected = 1;
    for (int i = 0; i < 30 && granted < share * expected; ++i) {
      // What this machine can do at all just now, where nobody has to wait: above an eighth of that, to wait and to be
      // woken may take all of its time, and it is not the schedule that is measured.
      const saturated_run free = granted_when_saturated(rate::per_second(1'000'000'000), callers, span / 4);
      possible = static_cast<double>(free.granted) * 4;
      const saturated_run run = granted_when_saturated(rate::per_second(per_second), callers, span);
      granted = static_cast<double>(run.granted);
      // Lateness beyond 20 ms is not caught up, so what others took of the processor may be missing.
      const double lost = static_cast<double>(run.machine_busy.count()) / static_cast<double>(span.count());
      expected = std::min(due * (1 - lost), possible / 8);
    }
    INFO(per_second << " per second: " << granted << " of " << expected << ", " << due << " due, " << possible
                    << " possible");
    CHECK(granted >= share * expected);
  }
}

TEST_CASE("no window holds more than the burst and its time's tokens, however fast one asks", "[scheduler][realtime]") {
  constexpr std::uint64_t burst = 50;
  net::io_context io;
  scheduler s{io, {.rate = rate::per_second(1'000'000), .burst = burst, .initial_tokens = burst}};
  // The most that may be taken at any instant, by a model that knows when each call began and ended: the level before
  // is reckoned from the begin of the last call, so it is never less than the true one. The scheduler's clock may be
  // behind by 1 us when the bucket is full, and right afterwards.
  constexpr std::int64_t most_behind = 1000;
  const time_point end = clock_now() + 50ms;
  constexpr std::int64_t full = burst * 1000;  // a token is 1000 ns
  std::int64_t level = full;
  std::int64_t excess = 0;
  std::int64_t granted = 0;
  for (time_point before = clock_now(), last = before; before < end; before = clock_now()) {
    const bool ok = s.try_acquire();
    const time_point after = clock_now();
    level = std::min(level + (after - last).count(), full + (after - before).count() + most_behind);
    last = after;
    if (!ok) continue;
    ++granted;
    level -= 1000;
    if (level < 0) ++excess;
  }
  CHECK(excess == 0);
  CHECK(granted > static_cast<std::int64_t>(burst));
}

// ---- lateness ----

namespace {

void hold_up_the_loop(duration d) { std::this_thread::sleep_for(d); }

/// Loops of acquires at 1000 per second on a loop that a handler holds up once; what was granted is counted.
struct held_up {
  net::io_context io{1};
  time_point start = clock_now();
  scheduler s{io, {.rate = rate::per_second(1000)}};
  std::int64_t granted = 0;

  held_up() {
    const auto caller = [](held_up& h) -> net::awaitable<void> {
      for (;;) {
        co_await h.s.acquire();
        ++h.granted;
      }
    };
    for (int i = 0; i < 500; ++i) net::co_spawn(io, caller(*this), net::detached);
  }

  std::int64_t due() const { return (clock_now() - start) / 1ms; }
  std::int64_t missing_after(duration hold_up) {
    io.run_for(20ms);
    const std::int64_t before = due() - granted;
    hold_up_the_loop(hold_up);
    io.run_for(5ms);
    return due() - granted - before;
  }
};

}  // namespace

TEST_CASE("a wake-up that comes late is caught up", "[scheduler][realtime]") {  // docs/decisions/0010
  std::int64_t missing = 1000;
  for (int i = 0; i < 30 && missing > 3; ++i) {
    held_up h;
    missing = std::min(missing, h.missing_after(12ms));
    CHECK(h.granted <= h.due());
  }
  CHECK(missing <= 3);
}

TEST_CASE("lateness does not accumulate", "[scheduler][realtime]") {
  std::int64_t missing = 1000;
  for (int i = 0; i < 300 && missing > 5; ++i) {
    held_up h;
    std::int64_t sum = 0;
    for (int k = 0; k < 10; ++k) sum += h.missing_after(6ms);
    missing = std::min(missing, sum);
    CHECK(h.granted <= h.due());
  }
  CHECK(missing <= 5);
}

TEST_CASE("a process that was stopped does not make up for it in one go", "[scheduler][realtime]") {
  for (int i = 0; i < 3; ++i) {
    held_up h;
    h.io.run_for(20ms);
    hold_up_the_loop(300ms);
    // As counted when it is let in: some may not have been told of it yet.
    const std::uint64_t before = h.s.stats().granted;
    const time_point resumed = clock_now();
    h.io.run_for(10ms);
    const std::int64_t after = clock_now() - resumed < 10ms ? 10 : (clock_now() - resumed) / 1ms + 1;
    // The burst of 1, 20 ms, and what came due since.
    CHECK(static_cast<std::int64_t>(h.s.stats().granted - before) <= 1 + 20 + after);
    CHECK(h.granted <= h.due() - 250);
  }
}

// ---- limits of time ----

TEST_CASE("sleeps, deadlines and time limits end in time", "[scheduler][realtime]") {
  in_time([] {
    net::io_context io;
    const time_point start = clock_now();
    scheduler s{io, {.rate = rate::per_second(5), .burst = 3, .initial_tokens = 3}};
    s.pause();
    std::vector<duration> late;
    const auto note = [&](duration due) {
      late.push_back(clock_now() - start - due);
      CHECK(late.back() >= 0ns);
    };
    net::co_spawn(io, sleep_until(start + 30ms), [&](std::exception_ptr) { note(30ms); });
    net::co_spawn(io, sleep_for(30ms), [&](std::exception_ptr) { note(30ms); });
    net::co_spawn(io, with_timeout(s.acquire(), 60ms), [&](std::exception_ptr) { note(60ms); });
    net::co_spawn(io, with_deadline(s.acquire(), start + 90ms), [&](std::exception_ptr) { note(90ms); });
    s.async_acquire({.deadline = start + 120ms}, [&](std::error_code ec) {
      CHECK(ec == errc::timed_out);
      note(120ms);
    });
    io.run();
    REQUIRE(late.size() == 5);
    return *std::max_element(late.begin(), late.end());
  });
}
