// Sleeping, limits of time, cancel sources and task groups.

#include "canigo/cancel.hpp"
#include "canigo/cancel_after.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/task_group.hpp"

#include "stage.hpp"

#include <asio/steady_timer.hpp>

namespace torture {

using namespace canigo;
using namespace std::chrono_literals;

namespace {

const scheduler_options paused_full{.rate = rate::per_second(100), .burst = 4, .initial_tokens = 4};

void sleepers(stage& t) {
  for (int i = 0; i < 2; ++i) t.spawn([] { return sleep_for(1h); });
  for (int i = 0; i < 3; ++i) t.spawn([] { return sleep_until(time_point{5ms}); });
  t.play([&] { t.pass(3ms); }, [&] { t.pass(1s); });
  t.expect_all_ended();
}

// What co_spawn allocates comes before: where that fails inside, Asio 1.22 ends the program. A strand of Asio's that
// can't allocate after it has taken a function never runs anything again; what it needs there is spared.
void limits_of_time_that_pass(stage& t) {
  scheduler s{t.io(), paused_full};
  t.can_stop([&s](stop_mode) { s.stop(); });
  s.pause();
  cancel_source source;
  t.spare_aligned();
  t.needs_context();  // for the timer
  t.spawn([&s] { return with_timeout(s.acquire(), 5ms); });
  t.spawn([&s] { return with_deadline(s.acquire({.deadline = time_point{100h}}), time_point{6ms}); });
  t.spawn([&s, &source] { return source.wrap(s.acquire()); });
  net::steady_timer never{t.io(), time_point::max()};
  t.pass(2ms);
  never.async_wait(canigo::cancel_after(5ms, t.handler()));
  t.play([&] { source.cancel(); }, [&] { t.pass(1s); });
  source.cancel();
  t.expect_all_ended();
  s.resume();
  t.expect_full(s, 4);
}

void limits_of_time_within_each_other(stage& t) {
  t.spare_memory();
  semaphore m{t.io(), {.permits = 1}};
  t.can_stop([&m](stop_mode) { m.stop(); });
  for (int i = 0; i < 3; ++i) {
    t.spawn([&m, i]() -> net::awaitable<void> {
      const auto body = [](semaphore& of) -> net::awaitable<void> {
        const permit p = co_await with_timeout(of.acquire(), 4ms);
        co_await sleep_for(3ms);
      };
      co_await with_timeout(body(m), (2 + i * 3) * 1ms);
    });
  }
  t.play([&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(m.stats());
  t.expect(m.stats().held == 0, "a permit is lost");
}

void a_source_cancels_many(stage& t) {
  t.spare_memory();
  cancel_source source;
  for (int i = 0; i < 4; ++i) t.spawn([&source, i] { return source.wrap(sleep_for(i * 2ms + 1ms)); });
  t.play([&] { t.pass(4ms); }, [&] { source.cancel(); }, [&] { t.pass(1s); });
  t.expect_all_ended();
}

void a_group_is_joined(stage& t) {
  t.spare_memory();
  task_group group{t.io()};
  t.can_stop([&group](stop_mode) { group.cancel(); });
  t.spawn([&group]() -> net::awaitable<void> {
    for (int i = 0; i < 3; ++i) group.spawn(sleep_for((i + 1) * 1ms));
    co_await group.join();
    group.spawn(sleep_for(1ms));
    co_await group.join();
  });
  t.play([&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(group.running() == 0, "a child still runs");
}

void a_child_of_a_group_throws(stage& t) {
  t.spare_memory();
  task_group group{t.io()};
  t.can_stop([&group](stop_mode) { group.cancel(); });
  t.spawn([&group]() -> net::awaitable<void> {
    const auto throws = []() -> net::awaitable<int> {
      co_await sleep_for(2ms);
      throw thrown{};
    };
    group.spawn(sleep_for(1h));
    group.spawn(throws());
    group.spawn(throws());
    co_await group.join();
  });
  t.play([&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(group.running() == 0, "a child still runs");
}

void a_group_is_waited_for_whatever_fails(stage& t) {
  t.spare_memory();
  task_group group{t.io()};
  t.can_stop([&group](stop_mode) { group.cancel(); });
  t.spawn([&group]() -> net::awaitable<void> {
    const auto throws = []() -> net::awaitable<void> {
      co_await sleep_for(1ms);
      throw thrown{};
    };
    for (int i = 0; i < 3; ++i) group.spawn(throws());
    group.spawn(sleep_for(3ms));
    (void)co_await group.wait_all();
  });
  t.play([&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(group.running() == 0, "a child still runs");
}

void operations_are_left_to_a_group(stage& t) {
  t.spare_memory();
  task_group group{t.io()};
  t.can_stop([&group](stop_mode) { group.cancel(); });
  for (int i = 0; i < 3; ++i) {
    t.spawn([&group, i]() -> net::awaitable<void> {
      const auto ignores = []() -> net::awaitable<void> {
        co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
        co_await sleep_for(3ms);
      };
      co_await with_timeout(ignores(), (1 + 2 * i) * 1ms, abandon_to{group});
    });
  }
  t.play([&] { t.pass(2ms); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect(group.running() == 0, "what was left still runs");
}

}  // namespace

std::vector<scenario> scenarios_of_time() {
  return {
      {"sleepers", sleepers},
      {"limits of time that pass", limits_of_time_that_pass},
      {"limits of time within each other", limits_of_time_within_each_other},
      {"a source cancels many", a_source_cancels_many},
      {"a group is joined", a_group_is_joined},
      {"a child of a group throws", a_child_of_a_group_throws},
      {"a group is waited for, whatever fails", a_group_is_waited_for_whatever_fails},
      {"operations are left to a group", operations_are_left_to_a_group},
  };
}

}  // namespace torture
