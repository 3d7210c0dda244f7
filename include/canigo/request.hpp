#pragma once

#include "canigo/time.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace canigo {

/// A unit of a limiter, given by its name or its number: 0 is the unit of the first rate, 1 the next one, and so on.
///
/// The text of a name is not copied; it must live until the call that takes the key has ended. A string literal always
/// does.
class unit_key {
 public:
  unit_key(const char* name) noexcept : key_{reinterpret_cast<std::uintptr_t>(name)} {}
  template <std::integral Number>
    requires(!std::same_as<Number, bool> && !std::same_as<Number, char>)
  unit_key(Number number) noexcept
      : key_{number >= 0 && static_cast<std::uintmax_t>(number) < most_numbers ? static_cast<std::uintptr_t>(number)
                                                                               : most_numbers} {}

  bool is_number() const noexcept { return key_ <= most_numbers; }
  /// The number of the unit, if is_number(); 255 if no unit can have that number.
  std::size_t number() const noexcept { return key_; }
  /// The name of the unit, if not is_number().
  std::string_view name() const noexcept { return reinterpret_cast<const char*>(key_); }

 private:
  friend class unit_amounts;
  friend struct unit_amount;
  static constexpr std::uintptr_t most_numbers = 255;  // the max key_ that is a number; a greater one is an address
  unit_key() noexcept = default;

  std::uintptr_t key_;
};

/// The amount of one unit that a request needs.
struct unit_amount {
  unit_key unit;
  std::uint64_t amount;
};

/// The amounts of units other than the first one that a request needs: `{.amounts = {{"tokens", 1200}, {"bytes",
/// 40}}}`.
///
/// The request takes nothing of units that are not listed, and does not wait for them. A copy does not allocate.
class unit_amounts {
 public:
  /// Max number of units in `request.amounts`. A limiter can have one more unit, that of its first rate.
  static constexpr std::size_t most = 4;

  unit_amounts() noexcept {}
  // There is no constructor from std::initializer_list, because g++ 12 rejects one inside a co_await expression.
  unit_amounts(unit_amount a) noexcept { append(a); }
  unit_amounts(unit_amount a, unit_amount b) noexcept : unit_amounts{a} { append(b); }
  unit_amounts(unit_amount a, unit_amount b, unit_amount c) noexcept : unit_amounts{a, b} { append(c); }
  unit_amounts(unit_amount a, unit_amount b, unit_amount c, unit_amount d) noexcept : unit_amounts{a, b, c} {
    append(d);
  }
  // Copies only the amounts in use. Usually there are none, and then the copy costs one comparison.
  unit_amounts(const unit_amounts& other) noexcept { copy(other); }
  unit_amounts& operator=(const unit_amounts& other) noexcept {
    copy(other);
    return *this;
  }
  ~unit_amounts() = default;

  /// Errors: errc::invalid_argument if there are already `most` amounts.
  void add(unit_key unit, std::uint64_t amount);

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  const unit_amount* begin() const noexcept { return items_; }
  const unit_amount* end() const noexcept { return items_ + size_; }

 private:
  void append(const unit_amount& a) noexcept { items_[size_++] = a; }
  void copy(const unit_amounts& other) noexcept {
    size_ = other.size_;
    for (std::size_t i = 0; i < size_ && i < most; ++i) items_[i] = other.items_[i];
  }

  std::size_t size_ = 0;
  unit_amount items_[most];  // the amounts; elements from index size_ on are uninitialized
};

class flow;

/// A request to a limit: how many tokens, how important, and until when a grant is useful.
struct request {
  int priority = 0;              ///< priority class, 0 (goes first) … priorities-1
  int sublimit = -1;             ///< the number of a sublimit, which then limits the request, too; -1: none
  std::uint64_t tokens = 1;      ///< the requested tokens; 1 or more; more than the burst is errc::too_large
  deadline_point deadline = {};  ///< a grant after this instant is useless
  /// the flow to which the request belongs, one of the limit's flows; null: a nameless flow of weight 1
  const canigo::flow* flow = nullptr;
  unit_amounts amounts = {};  ///< the amounts of other units, for a limiter whose rates have several units
  std::uint64_t tag = 0;      ///< any number; waiting() of the limit shows it
  /// For a repeated request: the instant at which it arrived first. Its position in the queue, its ageing and its
  /// measured wait count from then. An instant in the future means now. In a limit with flows, it decides the position
  /// inside the flow only; the shares of flows decide between flows.
  time_point since = time_point::max();
  /// The alternatives of a limiter that may serve the request, as a bit mask: bit 0 is the first alternative. Bits
  /// without an alternative have no effect, and a limit without alternatives ignores the mask.
  std::uint64_t alternatives = ~std::uint64_t{0};
};

/// How a full queue treats a new request.
enum class overflow {
  reject_new,    ///< the new request ends with errc::queue_full
  evict_oldest,  ///< the waiter that has waited longest ends with errc::evicted and makes room
  /// The youngest waiter of the least important class ends with errc::evicted, if its class is less important than that
  /// of the new request. Otherwise the new request ends with errc::queue_full. With flows, see canigo::flow.
  evict_least_important,
  wait,  ///< the caller waits until there is room; only for run() and async_run() of pools
};

}  // namespace canigo
