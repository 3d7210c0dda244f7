#include "canigo/detail/pool/pool_backlog.hpp"

#include "canigo/detail/queue/fair_queue.hpp"

#include "support/catch.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;
using canigo::detail::pool_backlog;
using canigo::detail::pool_task;

namespace {

constexpr time_point noon{1h};

/// A task that does nothing.
class idle_task final : public pool_task {
 public:
  idle_task() noexcept : pool_task{false} {}

 private:
  void call(task_context&) override {}
  net::awaitable<void> start(task_context&) override { co_return; }
  void drop_callable() noexcept override {}
};

struct flow_watcher {
  time_point now() const noexcept { return noon; }
  void look_again() noexcept { ++looks; }
  int looks = 0;
};

/// Tasks of a class each.
template <std::size_t N>
std::array<idle_task, N>& of_classes(std::array<idle_task, N>& tasks, std::array<int, N> priorities) {
  for (std::size_t i = 0; i < N; ++i) tasks[i].priority = static_cast<std::uint16_t>(priorities[i]);
  return tasks;
}

}  // namespace

TEST_CASE("a task is where its state says that it is, and leaves from there", "[pool_backlog]") {
  pool_backlog b{2, 10, overflow::reject_new};
  std::array<idle_task, 4> t;
  b.add(t[0], noon);
  b.queue(t[1], noon);
  b.delay(t[2], noon);
  b.hold(t[3], noon);
  CHECK(t[0].state() == task_state::queued);
  CHECK(t[1].state() == task_state::queued);
  CHECK(t[2].state() == task_state::delayed);
  CHECK(b.queued() == 2);
  CHECK(b.delayed() == 1);
  CHECK(b.held() == 1);
  CHECK(b.size() == 4);
  for (auto& one : t) b.remove(one);
  CHECK(b.size() == 0);
}

TEST_CASE("the most important task is first, and is taken out to run", "[pool_backlog]") {
  pool_backlog b{2, 10, overflow::reject_new};
  std::array<idle_task, 3> t;
  of_classes(t, {1, 0, 0});
  for (auto& one : t) b.add(one, noon);
  flow_watcher watcher;
  for (const std::size_t next : {1u, 2u, 0u}) {
    CHECK(b.take(watcher) == &t[next]);
    CHECK(t[next].state() == task_state::running);
  }
  CHECK(b.take(watcher) == nullptr);
  CHECK(watcher.looks == 0);  // there are no flows
}

TEST_CASE("the limit is on what has to wait: what free workers are about to take does not count", "[pool_backlog]") {
  pool_backlog b{1, 2, overflow::reject_new};
  std::array<idle_task, 5> t;
  CHECK(b.has_room());
  b.add(t[0], noon);
  CHECK(b.has_room());
  b.delay(t[1], noon);
  CHECK_FALSE(b.has_room());
  CHECK_FALSE(b.has_room(t[4], 0, noon));
  CHECK(b.has_room(t[4], 1, noon));
  b.add(t[2], noon);
  CHECK_FALSE(b.has_room(t[4], 1, noon));
  CHECK(b.has_room(t[4], 2, noon));
  CHECK(b.has_room(t[4], 9, noon));
  b.delay(t[3], noon);
  CHECK(b.has_room(t[4], 3, noon));
  b.delay(t[4], noon);  // no worker takes a delayed one
  CHECK_FALSE(b.has_room(t[4], 9, noon));
  while (b.take_any() != nullptr) {
  }
}

TEST_CASE("who makes room for a newcomer is as the options say", "[pool_backlog]") {
  const auto victim = [](overflow o, std::array<int, 3> priorities, int newcomer) {
    pool_backlog b{3, 3, o};
    std::array<idle_task, 3> t;
    of_classes(t, priorities);
    for (auto& one : t) b.add(one, noon);
    idle_task new_one;
    new_one.priority = static_cast<std::uint16_t>(newcomer);
    const auto [is_let_in, v] = b.admit(new_one, 0, noon);
    CHECK(is_let_in == (v != nullptr));
    std::ptrdiff_t found = -1;
    for (std::size_t i = 0; i < t.size(); ++i) {
      if (v == &t[i]) found = static_cast<std::ptrdiff_t>(i);
    }
    while (b.take_any() != nullptr) {
    }
    return found;
  };
  CHECK(victim(overflow::reject_new, {2, 2, 2}, 0) == -1);
  CHECK(victim(overflow::wait, {2, 2, 2}, 0) == -1);
  CHECK(victim(overflow::evict_oldest, {1, 2, 0}, 2) == 0);
  CHECK(victim(overflow::evict_least_important, {1, 1, 0}, 0) == 1);
  CHECK(victim(overflow::evict_least_important, {1, 1, 0}, 1) == -1);
  CHECK(victim(overflow::evict_least_important, {0, 2, 1}, 1) == 1);
  pool_backlog empty{1, 1, overflow::evict_least_important};
  idle_task first;
  CHECK(empty.admit(first, 0, noon).is_let_in);
  CHECK(empty.admit(first, 0, noon).victim == nullptr);
}

TEST_CASE("a newcomer for which a task of its flow has to go needs no room beside", "[pool_backlog]") {
  pool_backlog b{2, 2, overflow::evict_least_important};
  b.begin_flows(noon);
  const std::uint32_t flow = b.flows()->add({.queue_limit = 1});
  std::array<idle_task, 5> t;
  of_classes(t, {1, 0, 0, 1, 0});
  for (const std::size_t i : {0u, 1u, 2u}) {
    if (i == 0) canigo::detail::fair_queue::choose(t[i], flow);
    const auto [is_let_in, victim] = b.admit(t[i], 1, noon);
    CHECK(is_let_in);
    CHECK(victim == nullptr);
    b.queue(t[i], noon);
  }
  // The worker has taken something else: there is one too many.
  CHECK_FALSE(b.admit(t[3], 0, noon).is_let_in);
  canigo::detail::fair_queue::choose(t[4], flow);
  CHECK(b.admit(t[4], 0, noon).victim == &t[0]);
  while (b.take_any() != nullptr) {
  }
}

TEST_CASE("who is held back is taken by importance, and is held back no more", "[pool_backlog]") {
  pool_backlog b{2, 1, overflow::wait};
  std::array<idle_task, 3> t;
  of_classes(t, {1, 0, 1});
  for (auto& one : t) b.hold(one, noon);
  CHECK(b.queued() == 0);
  CHECK(&b.take_held(noon) == &t[1]);
  b.queue(t[1], noon);
  CHECK(&b.take_held(noon) == &t[0]);
  CHECK(b.held() == 1);
  CHECK(b.take_any_held() == &t[2]);
  CHECK(b.take_any_held() == nullptr);
  CHECK(b.size() == 1);
  b.remove(t[1]);
  CHECK(b.size() == 0);
}

TEST_CASE("all are taken out, whatever they wait for", "[pool_backlog]") {
  pool_backlog b{1, 9, overflow::wait};
  std::array<idle_task, 6> t;
  for (std::size_t i = 0; i < t.size(); ++i) {
    if (i % 3 == 0) b.add(t[i], noon);
    if (i % 3 == 1) b.delay(t[i], noon);
    if (i % 3 == 2) b.hold(t[i], noon);
  }
  std::vector<pool_task*> taken;
  while (pool_task* one = b.take_any()) taken.push_back(one);
  CHECK(taken == std::vector<pool_task*>{&t[0], &t[3], &t[1], &t[4], &t[2], &t[5]});
  CHECK(b.size() == 0);
}

TEST_CASE("a task whose flow has gone before it comes is of the nameless one", "[pool_backlog]") {
  using detail::fair_queue;
  pool_backlog b{1, 10, overflow::reject_new};
  b.begin_flows(noon);
  const std::uint32_t stays = b.flows()->add({});
  const std::uint32_t goes = b.flows()->add({});
  b.flows()->forget(goes);
  for (const std::uint32_t flow : {stays, goes}) {
    idle_task t;
    fair_queue::choose(t, flow);
    CHECK(b.admit(t, 0, noon).is_let_in);
    CHECK(t.flow() == (flow == stays ? stays : fair_queue::nameless));
  }
}
