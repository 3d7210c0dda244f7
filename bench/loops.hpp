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

/// The common parts of benchmarks with coroutines and threads.
namespace bench {

namespace net = canigo::net;

/// Measures `operations` calls of `f`.
template <class Function>
sample repeated(std::int64_t operations, Function&& f) {
  return measure(operations, [&] {
    for (auto i = operations; i > 0; --i) f();
  });
}

/// Measures two threads that each call `f` `each` times.
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

/// Measures the coroutine `main`, which does `operations` operations, alone on its own event loop.
template <class Main>
sample in_coroutine(std::int64_t operations, Main main) {
  net::io_context io{1};
  net::co_spawn(io, std::move(main), net::detached);
  return measure(operations, [&] { io.run(); });
}

/// Measures all work of `io`, run by one or two threads.
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

/// A second thread, which sleeps. In a process with a single thread locks are cheaper, and real programs have several.
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
