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

/// Waits for descriptors and times, on one thread.
class loop {
 public:
  /// What a descriptor is of.
  class handler {
   public:
    virtual ~handler() = default;
    /// `events` as of epoll.
    virtual void ready(std::uint32_t events) = 0;
  };

  loop();
  ~loop();
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;

  /// Tells the handler of these events from now on. It is kept until forget().
  void watch(int descriptor, std::uint32_t events, std::shared_ptr<handler> h);
  void change(int descriptor, std::uint32_t events);
  void forget(int descriptor);

  void after(milliseconds delay, std::function<void()> f) { timers_.emplace(clock::now() + delay, std::move(f)); }

  /// Runs until there is nothing left to do at once, or `most` has passed without anything to do.
  void turn(milliseconds most);

 private:
  int epoll_;
  std::uint64_t last_ = 0;
  std::unordered_map<int, std::uint64_t> numbers_;  // by descriptor: of its handler
  std::unordered_map<std::uint64_t, std::shared_ptr<handler>> handlers_;
  std::multimap<clock::time_point, std::function<void()>> timers_;
};

}  // namespace conversations
