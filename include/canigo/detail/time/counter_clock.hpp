#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>

namespace canigo::detail {

/// A steady clock that counts processor ticks since an anchor, which is a reading of the system's clock. Reading this
/// clock takes half the time of a system call.
///
/// It is never ahead of the system's clock, because it counts each tick as a thousandth shorter than measured. It is at
/// most 1 µs behind, because an anchor is used for at most 650 µs. All threads share one anchor. A processor may read
/// its counter before an earlier load of the program. So a thread that waits for a cache line of another core may read
/// the time at which its wait began. Then a second reading of this clock may return an earlier time than the first one,
/// by up to 1 µs.
///
/// At each new anchor the clock is compared with the system's clock. If they differ too much, the length of a tick is
/// measured again. If they differ a second time, the system's clock is used from then on. The clocks differ, for
/// example, after a machine was suspended or moved to another host. Then this clock is wrong by at most 650 µs, until
/// the next anchor. The same check detects a system clock that is adjusted by more than a thousandth.
///
/// `Source` has four functions: is_trusted() tells whether its ticks are usable; ticks() reads the counter;
/// ticks_between() reads it in program order; now() reads the system's clock. None of them throws.
///
/// Threads: any. Allocates: never.
template <class Source>
class counter_clock {
 public:
  constexpr explicit counter_clock(Source source = {}) noexcept : source_{source} {}

  time_point now() noexcept {
    // The reader's side of a sequence lock: the version is odd while a thread writes.
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

  /// Reads the system's clock, and makes this reading the anchor. If this clock is read immediately afterwards, its
  /// time is at most 0.3 µs behind the system's clock.
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
    return before;  // this value is also the anchor, so that the time never goes back for a single thread
  }

  /// Uses the system's clock from now on. If another thread is renewing the anchor at this moment, the counter may be
  /// used until that anchor, or the next one, is stored.
  void turn_off() noexcept {
    is_off_.store(true, std::memory_order_relaxed);
    std::uint32_t version = version_.load(std::memory_order_relaxed);
    while (version % 2 == 0 && !version_.compare_exchange_weak(version, off, std::memory_order_relaxed)) {
    }
  }

 private:
  struct reading {
    std::uint64_t ticks;
    time_point time;  // an instant at or before the instant at which `ticks` was read
  };
  enum class phase : std::uint8_t { unknown, measuring, counting };

  // The value of version_ after the clock is turned off. It is odd, as during a write, so no reader uses the anchor.
  static constexpr std::uint32_t off = ~std::uint32_t{0};
  static constexpr unsigned slope_bits = 32;
  // The counted time runs slower than the measured rate by this factor, so that it is not ahead of the system's clock.
  static constexpr double slowness = 0.999;
  // The max age of an anchor (a reading of the system's clock). When an anchor reaches this age, a new anchor is read.
  static constexpr duration longest = std::chrono::microseconds{650};
  // The system's clock is read before and after the counter. If more time than this passes between the two readings of
  // that clock, the reading of the counter is not used.
  static constexpr duration closeness = std::chrono::nanoseconds{250};
  static constexpr duration first_measure = std::chrono::milliseconds{10};
  static constexpr duration next_measure = std::chrono::seconds{1};
  static constexpr duration most_off = std::chrono::microseconds{5};
  static constexpr int most_disagreements = 2;
  // After this many slow readings in a row, the clock is turned off. So many slow readings show that the counter is
  // slow, and not that the machine is busy.
  static constexpr int most_slow_readings = 100;

  void learn(reading at) noexcept {
    switch (phase_) {
      case phase::unknown:
        if (!source_.is_trusted()) return stop();
        return begin(at);
      case phase::measuring: {
        if (at.ticks <= base_.ticks) return begin(at);
        if (at.time - base_.time < first_measure) return;
        // Two measurements of the length of a tick must agree before the clock is used. They differ if the machine was
        // suspended during one of them.
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

  /// Whether the counted time agrees with the system's time. The counted time may be ahead by at most `closeness`, the
  /// uncertainty of the reading. It may be behind by at most `most_off` plus a thousandth of the time since the anchor.
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
    // Subtracts one tick, because the counter may have been about to tick when it was read. So this clock is never
    // ahead of the system's clock.
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
  atomic<std::uint64_t> slope_{0};   // nanoseconds per tick, times 2^32
  atomic<std::uint64_t> window_{0};  // number of ticks for which the anchor is valid; 0 if there is none
  atomic<bool> is_off_{false};
  // Only the thread that renews the anchor uses the members below. That thread makes `version_` odd first.
  phase phase_ = phase::unknown;
  int disagreements_ = 0;
  int slow_readings_ = 0;
  double ns_per_tick_ = 0;
  reading base_{};
};

}  // namespace canigo::detail
