#include "canigo/detail/base/mutex.hpp"

#include "support/catch.hpp"

#include <atomic>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

TEST_CASE("a mutex that is held can't be taken again until it is released", "[mutex]") {
  canigo::detail::mutex lock;
  REQUIRE(lock.try_lock());
  CHECK_FALSE(lock.try_lock());
  lock.unlock();
  {
    std::lock_guard guard{lock};
    CHECK_FALSE(lock.try_lock());
  }
  CHECK(lock.try_lock());
  lock.unlock();
}

TEST_CASE("threads that contend for a mutex lose no update", "[mutex]") {
  constexpr int threads = 4;
  constexpr int increments = 50'000;
  canigo::detail::mutex lock;
  long counter = 0;
  std::latch ready{threads};
  std::vector<std::thread> crew;
  for (int i = 0; i < threads; ++i)
    crew.emplace_back([&] {
      ready.arrive_and_wait();
      for (int round = 0; round < increments; ++round) {
        std::lock_guard guard{lock};
        ++counter;
      }
    });
  for (std::thread& member : crew) member.join();
  CHECK(counter == long{threads} * increments);
}

TEST_CASE("a waiter gets a mutex whose holder keeps it long past spinning and yielding", "[mutex]") {
  canigo::detail::mutex lock;
  lock.lock();
  std::atomic<int> entered{0};
  std::thread waiter{[&] {
    entered = 1;
    lock.lock();
    entered = 2;
    lock.unlock();
  }};
  while (entered == 0) std::this_thread::yield();
  for (int i = 0; i < 50'000; ++i) std::this_thread::yield();  // lets the waiter reach its naps
  CHECK(entered == 1);
  lock.unlock();
  waiter.join();
  CHECK(entered == 2);
}
