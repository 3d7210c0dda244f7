// What the pictures in docs/ show: each scene is played without a part of canigo and with it, in virtual time, and
// prints lines of "picture,series,x,y". docs/pictures/draw makes the drawings.
#include <canigo/adaptive_limit.hpp>
#include <canigo/circuit_breaker.hpp>
#include <canigo/flow.hpp>
#include <canigo/hedge.hpp>
#include <canigo/keyed.hpp>
#include <canigo/limiter.hpp>
#include <canigo/retry.hpp>
#include <canigo/scheduler.hpp>
#include <canigo/semaphore.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>
#include <canigo/with_limit.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using asio::awaitable;
using canigo::duration;
using canigo::time_point;

namespace {

const char* const without = "without";
const char* const with = "with";

/// A play of 60 s, and what was counted in each second of it.
class scene {
 public:
  static constexpr duration length = 60s;

  scene(std::string picture, std::string series) : picture_{std::move(picture)}, series_{std::move(series)} {}
  scene(const scene&) = delete;
  scene& operator=(const scene&) = delete;
  ~scene() = default;

  asio::io_context& io() { return io_; }
  duration at() const { return time_.elapsed(); }
  time_point now() const { return time_.now(); }
  bool is_between(duration from, duration to) const { return at() >= from && at() < to; }

  template <class Main>
  void go(Main main) {
    asio::co_spawn(io_, std::move(main), asio::detached);
  }
  /// Calls `each` so many times a second; `rate` may change while it runs.
  template <class Rate, class Each>
  void repeat(Rate rate, Each each) {
    go([this, rate, each]() -> awaitable<void> {
      while (at() < length) {
        duration pause = 10ms;
        if (const int a_second = rate(); a_second > 0) {
          each();
          pause = duration{1s} / a_second;
        }
        co_await canigo::sleep_for(pause);
      }
    });
  }
  void run() { time_.run_for(length); }
  void count(int n = 1) {
    if (at() < length) seconds_[static_cast<std::size_t>(at() / 1s)] += n;
  }
  /// Plays it, and prints what was counted.
  void play() {
    run();
    for (std::size_t i = 0; i < seconds_.size(); ++i) fmt::print("{},{},{},{}\n", picture_, series_, i, seconds_[i]);
  }

 private:
  std::string picture_, series_;
  asio::io_context io_;
  canigo::testing::virtual_time time_{io_};
  std::vector<int> seconds_ = std::vector<int>(length / 1s);
};

/// Three times the load from 10 s to 30 s, for callers that wait for a second.
void overload(const char* series) {
  scene s{"overload", series};
  canigo::semaphore db{
      s.io(),
      {.permits = 10, .shedding = {.target = series == with ? duration{5ms} : duration::max(), .interval = 100ms}}};
  s.repeat([&] { return s.is_between(10s, 30s) ? 300 : 80; },
           [&] {
             s.go([&]() -> awaitable<void> {
               const duration since = s.at();
               const canigo::permit p = co_await db.acquire();
               co_await canigo::sleep_for(100ms);
               if (s.at() - since <= 1s) s.count();
             });
           });
  s.play();
}

/// One customer sends 500 calls at 10 s, another one 5 a second.
void tenants(const char* series) {
  scene s{"tenants", series};
  canigo::scheduler quota{s.io(), {.rate = canigo::rate::per_second(20)}};
  std::optional<canigo::flow> gold, crawler;
  if (series == with) {
    gold.emplace(quota);
    crawler.emplace(quota);
  }
  const auto call = [&](const std::optional<canigo::flow>& flow, bool counts) -> awaitable<void> {
    const duration since = s.at();
    co_await quota.acquire({.flow = flow ? &*flow : nullptr});
    if (counts && s.at() - since <= 1s) s.count();
  };
  s.repeat([] { return 5; }, [&] { s.go([&] { return call(gold, true); }); });
  s.go([&]() -> awaitable<void> {
    co_await canigo::sleep_for(10s);
    for (int i = 0; i < 500; ++i) s.go([&] { return call(crawler, false); });
  });
  s.play();
}

/// An upstream hangs from 10 s to 40 s; half of all pages need it.
void outage(const char* series) {
  scene s{"outage", series};
  canigo::semaphore places{s.io(), {.permits = 20}};
  std::optional<canigo::circuit_breaker> breaker;
  if (series == with) {
    breaker.emplace(s.io(), canigo::circuit_breaker_options{.least_calls = 10, .window = 2s, .open_for = 2s});
  }
  const auto upstream = [&]() -> awaitable<void> {
    co_await canigo::sleep_for(s.is_between(10s, 40s) ? duration{1h} : duration{50ms});
  };
  int page = 0;
  s.repeat([] { return 100; },
           [&] {
             s.go([&, needs_it = ++page % 2 == 0]() -> awaitable<void> {
               const duration since = s.at();
               const canigo::permit place = co_await places.acquire({.deadline = s.now() + 1s});
               try {
                 if (needs_it && breaker) {
                   co_await canigo::with_breaker(canigo::with_timeout(upstream(), 2s), *breaker);
                 } else if (needs_it) {
                   co_await canigo::with_timeout(upstream(), 2s);
                 }
               } catch (const canigo::circuit_open_error&) {
                 // an old price is better than none
               }
               if (s.at() - since <= 1s) s.count();
             });
           });
  s.play();
}

/// An upstream refuses everything from 10 s to 30 s: the calls that reach it.
void retries(const char* series) {
  scene s{"retries", series};
  canigo::retry_budget budget;
  const auto call = [&]() -> awaitable<void> {
    s.count();
    co_await canigo::sleep_for(10ms);
    if (s.is_between(10s, 30s)) throw std::runtime_error{"refused"};
  };
  const canigo::backoff pause{.first = 100ms, .jitter = canigo::jitter::none};
  s.repeat([] { return 100; },
           [&] {
             s.go([&]() -> awaitable<void> {
               co_await canigo::retry(call,
                                      {.attempts = 4, .backoff = pause, .budget = series == with ? &budget : nullptr});
             });
           });
  s.play();
}

/// A service with ten servers takes four times as long from 20 s to 40 s. Callers wait for a second; it does not know.
void slower(const char* series) {
  scene s{"slower", series};
  canigo::semaphore servers{s.io(), {.permits = 10}};
  canigo::semaphore fixed{s.io(), {.permits = 100}};
  canigo::adaptive_limit adaptive{s.io(), {.initial = 20}};
  struct answer {
    bool is_there = false;
  };
  const auto ask = [&]() -> awaitable<void> {
    const auto a = std::make_shared<answer>();
    s.go([&s, &servers, a]() -> awaitable<void> {
      const canigo::permit server = co_await servers.acquire();
      co_await canigo::sleep_for(s.is_between(20s, 40s) ? 200ms : 50ms);
      a->is_there = true;
    });
    for (int i = 0; i < 200 && !a->is_there; ++i) co_await canigo::sleep_for(5ms);
    if (!a->is_there) throw std::system_error{canigo::errc::timed_out};
    s.count();
  };
  s.repeat([] { return 150; },
           [&] {
             s.go([&]() -> awaitable<void> {
               const canigo::request r{.deadline = s.now() + 250ms};
               if (series == with) {
                 co_await canigo::with_limit(ask(), adaptive, r);
               } else {
                 co_await canigo::with_limit(ask(), fixed, r);
               }
             });
           });
  s.play();
}

/// One address sends 500 requests a second from 10 s to 30 s, nine others three each: what those get.
void addresses(const char* series) {
  scene s{"addresses", series};
  canigo::scheduler for_all{s.io(), {.rate = canigo::rate::per_second(50), .burst = 50}};
  canigo::keyed_scheduler<int> for_each{s.io(), {.rate = canigo::rate::per_second(5), .burst = 10}};
  const auto is_let_in = [&](int address) {
    return series == with ? for_each.try_acquire(address) : for_all.try_acquire();
  };
  s.repeat([&] { return s.is_between(10s, 30s) ? 500 : 0; }, [&] { (void)is_let_in(0); });
  int last = 0;
  s.repeat([] { return 27; }, [&] { s.count(is_let_in(1 + ++last % 9) ? 1 : 0); });
  s.play();
}

/// One call in twenty hangs for a second: how long calls take.
void slowest(const char* series) {
  scene s{"slowest", series};
  canigo::retry_budget budget{canigo::hedge_budget};
  std::vector<duration> took;
  int number = 0;
  const auto call = [&]() -> awaitable<void> {
    co_await canigo::sleep_for(++number % 20 == 0 ? duration{1s} : duration{10ms} + number % 7 * 1ms);
  };
  s.repeat([] { return 20; },
           [&] {
             s.go([&]() -> awaitable<void> {
               const duration since = s.at();
               if (series == with) {
                 co_await canigo::hedge(call, {.after = 30ms, .budget = &budget});
               } else {
                 co_await call();
               }
               took.push_back(s.at() - since);
             });
           });
  s.run();
  std::sort(took.begin(), took.end());
  for (int percent = 80; percent <= 100; ++percent) {
    const std::size_t i = std::min(took.size() * static_cast<std::size_t>(percent) / 100, took.size() - 1);
    fmt::print("slowest,{},{},{}\n", series, percent, took[i] / 1ms);
  }
}

}  // namespace

int main() {
  for (const char* series : {without, with}) {
    for (auto* play : {overload, tenants, outage, retries, slower, addresses, slowest}) play(series);
  }
}
