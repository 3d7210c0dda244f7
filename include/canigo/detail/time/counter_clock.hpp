#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>

namespace canigo::detail {

/// A steady clock that counts the processor's ticks from an anchor, which takes half the time of asking the system.
///
/// It is never ahead of the system's clock, because it takes each tick for a thousandth shorter than it is. It is
/// behind by at most 1 µs, because no anchor serves for longer than 650 µs. All threads share one anchor. A processor
/// may read its counter before a load that stands earlier in the program. So a thread that waits for another core's
/// cache line may read what the time was when it began to wait. So of two readings, the second may be earlier, by as
/// much as it is behind.
///
/// At each new anchor the counter is compared with the system's clock. If it disagrees, the ticks are measured again.
/// If it does so a second time, the system is asked from then on. That happens on a machine that is suspended or moved.
/// Until the next anchor such a jump can be seen as 650 µs at most. A system's clock that is steered by more than a
/// thousandth is found out in the same way.
///
/// `Source` has is_trusted(), ticks(), ticks_between() and now(): whether its ticks are worth reading, the counter, the
/// counter in the order of the program, and the system's clock. None of them throws.
///
/// Threads: any. Allocation: none.
template <class Source>
class counter_clock {
 public:
  constexpr explicit counter_clock(Source source = {}) noexcept : source_{source} {}

  time_point now() noexcept {
    // The loads are a reader's side of a sequence lock: the version is odd while a thread writes.
    const std::uint32_t version = version_.load(std::memory_order_acquire);
    if (version == off) [[unlikely]]
      return source_.now();
    const std::uint64_t anchor = ticks_.load(std::memory_order_acquire);
    const std::int64_t time = time_.load(std::memory_order_acquire);
    const std::uint64_t slope = slope_.load(std::memory_order_acquire);
    const std::uint64_t window = window_.load(std::memory_order_acquire);
    const bool is_whole = version_.load(std::memory_order_relaxed) == (version & ~std::uint32_t{1});
    if (is_whole && window != 0) [[likely]] {
      const std::uint64_t since = source_.ticks() - anchor;
      if (since < window) [[likely]]
        return time_point{duration{time + static_cast<std::int64_t>(since * slope >> slope_bits)}};
    }
    return look();
  }

  /// Asks the system, whose answer becomes the anchor. A reading right afterwards is behind by 0.3 µs at most.
  [[gnu::noinline]] time_point look() noexcept {
    const time_point before = source_.now();
    std::uint32_t version = version_.load(std::memory_order_relaxed);
    if (version % 2 != 0 || !version_.compare_exchange_weak(version, version + 1, std::memory_order_acquire)) {
      return before;
    }
    const std::uint64_t ticks = source_.ticks_between();
    const time_point after = source_.now();
    if (after - before <= closeness) {
      slow_readings_ = 0;
      learn({ticks, before});
    } else if (++slow_readings_ == most_slow_readings) {
      stop();
    }
    version_.store(is_off_.load(std::memory_order_relaxed) ? off : version + 2, std::memory_order_release);
    return before;  // as the anchor, so that a thread that is alone never sees the time go back
  }

  /// Asks the system from now on. If another thread renews the anchor meanwhile, that anchor or the next one is the
  /// last.
  void turn_off() noexcept {
    is_off_.store(true, std::memory_order_relaxed);
    std::uint32_t version = version_.load(std::memory_order_relaxed);
    while (version % 2 == 0 && !version_.compare_exchange_weak(version, off, std::memory_order_relaxed)) {
    }
  }

 private:
  struct reading {
    std::uint64_t ticks;
    time_point time;  // not after the ticks
  };
  enum class phase : std::uint8_t { unknown, measuring, counting };

  static constexpr std::uint32_t off = ~std::uint32_t{0};  // a version, as if a thread wrote for ever
  static constexpr unsigned slope_bits = 32;
  static constexpr double slowness = 0.999;
  static constexpr duration longest = std::chrono::microseconds{650};
  static constexpr duration closeness = std::chrono::nanoseconds{250};  // of the two halves of a reading
  static constexpr duration first_measure = std::chrono::milliseconds{10};
  static constexpr duration next_measure = std::chrono::seconds{1};
  static constexpr duration most_off = std::chrono::microseconds{5};
  static constexpr int most_disagreements = 2;
  static constexpr int most_slow_readings = 100;  // one after the other: not a busy machine, but a slow clock

  void learn(reading at) noexcept {
    switch (phase_) {
      case phase::unknown:
        if (!source_.is_trusted()) return stop();
        return begin(at);
      case phase::measuring: {
        if (at.ticks <= base_.ticks) return begin(at);
        if (at.time - base_.time < first_measure) return;
        // It must be the same twice: a machine may have been suspended during one of the two, with the ticks going on.
        const double once = ns_per_tick_;
        measure(at);
        if (std::abs(ns_per_tick_ - once) > ns_per_tick_ * (1 - slowness)) return;
        phase_ = phase::counting;
        return publish(at);
      }
      case phase::counting:
        if (!agrees(at)) {
          window_.store(0, std::memory_order_release);
          if (++disagreements_ == most_disagreements) return stop();
          return begin(at);
        }
        if (at.time - base_.time >= next_measure) measure(at);
        return publish(at);
    }
  }

  void begin(reading at) noexcept {
    phase_ = phase::measuring;
    base_ = at;
  }

  void measure(reading at) noexcept {
    ns_per_tick_ = static_cast<double>((at.time - base_.time).count()) / static_cast<double>(at.ticks - base_.ticks);
    base_ = at;
  }

  /// Whether the counted time is ahead of the time that has passed by no more than the two halves of a reading are
  /// apart, and hardly behind.
  bool agrees(reading at) const noexcept {
    const std::uint64_t anchor = ticks_.load(std::memory_order_relaxed);
    const auto passed = static_cast<double>(at.time.time_since_epoch().count() - time_.load(std::memory_order_relaxed));
    const double counted = static_cast<double>(at.ticks - anchor) * ns_per_tick_;
    return at.ticks >= anchor && counted * slowness <= passed + static_cast<double>(closeness.count()) &&
           counted >= passed * slowness - static_cast<double>(most_off.count());
  }

  void stop() noexcept { is_off_.store(true, std::memory_order_relaxed); }

  void publish(reading at) noexcept {
    ticks_.store(at.ticks, std::memory_order_release);
    // The counter may have been about to tick.
    time_.store(at.time.time_since_epoch().count() - static_cast<std::int64_t>(ns_per_tick_) - 1,
                std::memory_order_release);
    slope_.store(static_cast<std::uint64_t>(ns_per_tick_ * slowness * (std::uint64_t{1} << slope_bits)),
                 std::memory_order_release);
    window_.store(static_cast<std::uint64_t>(static_cast<double>(longest.count()) / ns_per_tick_),
                  std::memory_order_release);
  }

  [[no_unique_address]] Source source_;
  atomic<std::uint32_t> version_{0};
  atomic<std::uint64_t> ticks_{0};
  atomic<std::int64_t> time_{0};
  atomic<std::uint64_t> slope_{0};   // nanoseconds a tick, times 2^32
  atomic<std::uint64_t> window_{0};  // ticks for which the anchor serves; 0 if there is none
  atomic<bool> is_off_{false};
  // Only for the thread that has made the version odd.
  phase phase_ = phase::unknown;
  int disagreements_ = 0;
  int slow_readings_ = 0;
  double ns_per_tick_ = 0;
  reading base_{};
};

}  // namespace canigo::detail
