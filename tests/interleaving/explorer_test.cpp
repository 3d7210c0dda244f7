// The explorer finds what it is for: toys with a defect, each of which goes well under most schedules.

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/mutex.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

using canigo::detail::atomic;
using interleaving::by;
using interleaving::explorer;
using interleaving::verdict;
using interleaving::world;

TEST_CASE("two threads that read and then write lose a count", "[interleaving]") {
  const auto toy = [](world& w) {
    atomic<int> count{0};
    const auto increment = [&] { count.store(count.load() + 1); };
    w.thread("a", increment);
    w.thread("b", increment);
    w.run();
    w.expect(count.load() == 2, "a count was lost");
  };
  CHECK(explorer::explore({.preemptions = 0}, toy).ok());
  const verdict v = explorer::explore({.preemptions = 1}, toy);
  CHECK(v.failure == "a count was lost");
  CHECK(v.schedule.find("a: load") != std::string::npos);
  for (const by how : {by::random, by::priorities}) {
    const verdict found = explorer::explore({.how = how, .runs = 1000}, toy);
    CHECK(found.failure == v.failure);
    const verdict again = explorer::explore({.replay = found.replay}, toy);
    CHECK(again.schedule == found.schedule);
    CHECK(again.runs == 1);
  }
  CHECK(explorer::explore({.replay = v.replay}, toy).schedule == v.schedule);
}

TEST_CASE("two locks taken in different orders wait for ever", "[interleaving]") {
  const auto toy = [](world& w) {
    canigo::detail::mutex first;
    canigo::detail::mutex second;
    const auto take = [](auto& one, auto& other) {
      one.lock();
      other.lock();
      other.unlock();
      one.unlock();
    };
    w.thread("a", [&] { take(first, second); });
    w.thread("b", [&] { take(second, first); });
    w.run();
  };
  CHECK(explorer::explore({.preemptions = 0}, toy).ok());
  CHECK(explorer::explore({.preemptions = 1}, toy).failure == "a waits for ever");
}

TEST_CASE("a defect that needs two preemptions is found with two and not with one", "[interleaving]") {
  const auto toy = [](world& w) {
    atomic<int> turn{0};
    bool met = false;
    w.thread("a", [&] {
      turn.store(1);
      if (turn.load() == 2) met = true;
      turn.store(3);
    });
    w.thread("b", [&] {
      if (turn.load() != 1) return;
      turn.store(2);
      if (turn.load() == 3 && met) w.expect(false, "met");
    });
    w.run();
  };
  CHECK(explorer::explore({.preemptions = 1}, toy).ok());
  CHECK(explorer::explore({.preemptions = 2}, toy).failure == "met");
}

TEST_CASE("what needs one change at the right place is found by priorities, and not by chance at each step",
          "[interleaving]") {
  const auto toy = [](world& w) {
    atomic<int> x{0};
    w.thread("a", [&] { x.store(1); });
    w.thread("b", [&] {
      for (int i = 0; i < 40; ++i) {
        if (x.load() != 0) return;
      }
      w.expect(x.load() == 0, "it came between the last two");
    });
    w.run();
  };
  CHECK(explorer::explore({.how = by::random, .runs = 10'000}, toy).ok());
  CHECK(explorer::explore({.how = by::priorities, .runs = 2'000, .changes = 0}, toy).ok());
  CHECK_FALSE(explorer::explore({.how = by::priorities, .runs = 2'000, .changes = 1}, toy).ok());
}

TEST_CASE("a schedule is written down and read again", "[interleaving]") {
  const std::vector<std::uint8_t> turns{1, 1, 1, 0, 2, 2};
  CHECK(interleaving::to_text(turns) == "b3ac2");
  interleaving::replayed again{"b3ac2"};
  again.begin_run();
  const std::uint8_t threads[] = {0, 1, 2};
  for (const std::uint8_t t : turns) CHECK(again.choose(threads, false) == t);
  CHECK(again.choose(threads, false) == 0);  // beyond its end, whoever runs goes on
}

TEST_CASE("every schedule is tried, and none twice", "[interleaving]") {
  // Two threads of n steps each have (2n)! / (n! n!) orders.
  const auto toy = [](world& w) {
    atomic<int> x{0};
    const auto steps = [&] {
      for (int i = 0; i < 3; ++i) x.load();
    };
    w.thread("a", steps);
    w.thread("b", steps);
    w.run();
  };
  CHECK(explorer::explore({.preemptions = 100}, toy).runs == 20);
  CHECK(explorer::explore({.preemptions = 0}, toy).runs == 2);
}

TEST_CASE("a thread that sees another's step before its own first one is among those tried", "[interleaving]") {
  const auto outcomes = [](int preemptions) {
    std::set<int> seen;
    CHECK(explorer::explore({.preemptions = preemptions}, [&seen](world& w) {
            atomic<int> x{0};
            int read = 0;
            w.thread("writes", [&] {
              x.store(1);
              x.store(2);
            });
            w.thread("reads", [&] { read = x.load(); });
            w.run();
            seen.insert(read);
          }).ok());
    return seen;
  };
  CHECK(outcomes(0) == std::set{0, 2});
  CHECK(outcomes(1) == std::set{0, 1, 2});
}

TEST_CASE("others may come between any two handlers of a loop", "[interleaving]") {
  const auto outcomes = [](int preemptions) {
    std::set<int> seen;
    CHECK(explorer::explore({.preemptions = preemptions}, [&seen](world& w) {
            const auto home = w.make_loop("loop");
            atomic<int> x{0};
            int read = 0;
            home.execute([&] { x.store(1); });
            home.execute([&] { read = x.load(); });
            w.thread("doubles", [&] { x.store(x.load() * 2); });
            w.run();
            seen.insert(read);
          }).ok());
    return seen;
  };
  CHECK(outcomes(0) == std::set{1});
  CHECK(outcomes(1) == std::set{1, 2});
  CHECK(outcomes(2) == std::set{0, 1, 2});
}

TEST_CASE("each order in which threads post to a loop is tried", "[interleaving]") {
  std::set<std::string> seen;
  CHECK(explorer::explore({.preemptions = 0}, [&seen](world& w) {
          const auto home = w.make_loop("loop");
          std::string order;
          for (const char* who : {"a", "b", "c"}) {
            w.thread(who, [&, who] { home.execute([&, who] { order += who; }); });
          }
          w.run();
          seen.insert(order);
        }).ok());
  CHECK(seen == std::set<std::string>{"abc", "acb", "bac", "bca", "cab", "cba"});
}

TEST_CASE("two threads of a loop run two handlers at once", "[interleaving]") {
  const auto toy = [](world& w) {
    const auto home = w.make_loop("loop", 2);
    atomic<int> count{0};
    for (int i = 0; i < 2; ++i) home.execute([&] { count.store(count.load() + 1); });
    w.run();
    w.expect(count.load() == 2, "a count was lost");
  };
  CHECK(explorer::explore({.preemptions = 0}, toy).ok());
  const verdict v = explorer::explore({.preemptions = 1}, toy);
  CHECK(v.failure == "a count was lost");
  CHECK(v.schedule.find("loop1: ") != std::string::npos);
  CHECK(explorer::explore({.replay = v.replay}, toy).schedule == v.schedule);
}

TEST_CASE("a sound counter passes", "[interleaving]") {
  explore(3, [](world& w) {
    atomic<int> count{0};
    canigo::detail::mutex m;
    int guarded = 0;
    const auto body = [&] {
      count.fetch_add(1);
      const std::lock_guard lock{m};
      ++guarded;
    };
    w.thread("a", body);
    w.thread("b", body);
    w.thread("c", body);
    w.run();
    w.expect(count.load() == 3 && guarded == 3, "a count was lost");
  });
}
