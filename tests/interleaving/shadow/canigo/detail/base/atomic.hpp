#pragma once

#include "explorer.hpp"

#include <atomic>
#include <utility>

namespace canigo::detail {

/// Replaces std::atomic in models: a thread may be preempted before each of its steps. It is sequentially consistent,
/// because only one thread of a model runs at a time.
template <class T>
class atomic {
 public:
  constexpr atomic() noexcept : value_{} {}
  constexpr atomic(T value) noexcept : value_{value} {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const noexcept {
    interleaving::explorer::step("load");
    return value_;
  }
  void store(T value, std::memory_order = std::memory_order_seq_cst) noexcept {
    interleaving::explorer::step("store");
    value_ = value;
  }
  T exchange(T value, std::memory_order = std::memory_order_seq_cst) noexcept {
    interleaving::explorer::step("exchange");
    return std::exchange(value_, value);
  }
  T fetch_add(T n, std::memory_order = std::memory_order_seq_cst) noexcept {
    interleaving::explorer::step("add");
    return std::exchange(value_, value_ + n);
  }
  T fetch_sub(T n, std::memory_order = std::memory_order_seq_cst) noexcept {
    interleaving::explorer::step("subtract");
    return std::exchange(value_, value_ - n);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order = std::memory_order_seq_cst) noexcept {
    interleaving::explorer::step("compare and exchange");
    if (value_ != expected) {
      expected = value_;
      return false;
    }
    value_ = desired;
    return true;
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order, std::memory_order) noexcept {
    return compare_exchange_weak(expected, desired);
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order = std::memory_order_seq_cst) noexcept {
    return compare_exchange_weak(expected, desired);
  }

 private:
  T value_;
};

}  // namespace canigo::detail
