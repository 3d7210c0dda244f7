#pragma once

#include "canigo/net.hpp"

#include "harness.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

/// What the benchmarks of coroutines and threads are made of.
namespace bench {

namespace net = canigo::net;

/// `f`, so often.
template <class Function>
sample repeated(std::int64_t operations, Function&& f) {
  return measure(operations, [&] {
    for (auto i = operations; i > 0; --i) f();
  });
}

/// `f`, so often, by each of two threads.
template <class Function>
sample by_two_threads(std::int64_t each, Function&& f) {
  const auto work = [&] {
    for (auto i = each; i > 0; --i) f();
  };
  return measure(2 * each, [&] {
    std::thread other{work};
    work();
    other.join();
  });
}

/// The coroutine `main`, which does so many operations, alone on a loop of its own.
template <class Main>
sample in_coroutine(std::int64_t operations, Main main) {
  net::io_context io{1};
  net::co_spawn(io, std::move(main), net::detached);
  return measure(operations, [&] { io.run(); });
}

/// All that is to be done on `io`, by one thread or two.
inline sample run_by(int threads, net::io_context& io, std::int64_t operations) {
  return measure(operations, [&] {
    std::thread other{[&] {
      if (threads > 1) io.run();
    }};
    io.run();
    other.join();
  });
}

/// A coroutine that does nothing.
inline net::awaitable<void> child() { co_return; }

/// Another thread, which sleeps: a lock is cheaper in a process of one thread, and ours never are.
class second_thread {
 public:
  second_thread() = default;
  second_thread(const second_thread&) = delete;
  second_thread& operator=(const second_thread&) = delete;
  ~second_thread() {
    done_ = true;
    done_.notify_one();
    thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_{[this] { done_.wait(false); }};
};

}  // namespace bench
