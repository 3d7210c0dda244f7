#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

namespace conversations {

using clock = std::chrono::steady_clock;
using milliseconds = std::chrono::milliseconds;

/// Waits for descriptors and timers on one thread.
class loop {
 public:
  /// Receives the events of a descriptor.
  class handler {
   public:
    virtual ~handler() = default;
    /// `events`: the events of epoll.
    virtual void ready(std::uint32_t events) = 0;
  };

  loop();
  ~loop();
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;

  /// Passes these events to the handler from now on, and keeps the handler until forget().
  void watch(int descriptor, std::uint32_t events, std::shared_ptr<handler> h);
  void change(int descriptor, std::uint32_t events);
  void forget(int descriptor);

  void after(milliseconds delay, std::function<void()> f) { timers_.emplace(clock::now() + delay, std::move(f)); }

  /// Runs until nothing is ready, or waits for up to `most` for an event.
  void turn(milliseconds most);

 private:
  int epoll_;
  std::uint64_t last_ = 0;
  std::unordered_map<int, std::uint64_t> numbers_;  // for each descriptor, the number of its handler
  std::unordered_map<std::uint64_t, std::shared_ptr<handler>> handlers_;
  std::multimap<clock::time_point, std::function<void()>> timers_;
};

}  // namespace conversations
