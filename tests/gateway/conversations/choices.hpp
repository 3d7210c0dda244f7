#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace conversations {

/// Random choices that depend only on a seed and on their purpose.
class choices {
 public:
  explicit choices(std::uint64_t seed, std::uint64_t purpose = 0) noexcept : state_{mixed(seed ^ mixed(purpose))} {}

  std::uint64_t next() noexcept { return mixed(state_ += 0x9e3779b97f4a7c15); }
  /// Returns a number from 0 to n - 1.
  std::size_t below(std::size_t n) noexcept { return static_cast<std::size_t>(next() % n); }
  std::size_t between(std::size_t least, std::size_t most) noexcept { return least + below(most - least + 1); }
  bool percent(std::size_t p) noexcept { return below(100) < p; }
  template <class T>
  T one_of(std::initializer_list<T> all) noexcept {
    return all.begin()[below(all.size())];
  }
  /// Returns an index. Its probability is proportional to its weight.
  std::size_t weighted(std::initializer_list<std::size_t> weights) noexcept {
    std::size_t sum = 0;
    for (const std::size_t w : weights) sum += w;
    std::size_t at = below(sum), i = 0;
    for (const std::size_t w : weights) {
      if (at < w) break;
      at -= w;
      ++i;
    }
    return i;
  }

 private:
  static std::uint64_t mixed(std::uint64_t x) noexcept {  // The function splitmix64.
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  std::uint64_t state_;
};

}  // namespace conversations
