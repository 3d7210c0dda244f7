#pragma once

#include "canigo/time.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace canigo {

/// A unit of a limiter, by its name or by its number: 0 is the unit of the first rate, 1 the next one, and so on.
///
/// The text of a name is not copied, and must live until the call that it is for has ended. A literal does.
class unit_key {
 public:
  unit_key(const char* name) noexcept : key_{reinterpret_cast<std::uintptr_t>(name)} {}
  template <std::integral Number>
    requires(!std::same_as<Number, bool> && !std::same_as<Number, char>)
  unit_key(Number number) noexcept
      : key_{number >= 0 && static_cast<std::uintmax_t>(number) < most_numbers ? static_cast<std::uintptr_t>(number)
                                                                               : most_numbers} {}

  bool is_number() const noexcept { return key_ <= most_numbers; }
  /// The number, if the key is one; 255 if no unit can have it.
  std::size_t number() const noexcept { return key_; }
  /// The name, if the key is one.
  std::string_view name() const noexcept { return reinterpret_cast<const char*>(key_); }

 private:
  friend class unit_amounts;
  friend struct unit_amount;
  static constexpr std::uintptr_t most_numbers = 255;  // no text lies at so low an address
  unit_key() noexcept = default;

  std::uintptr_t key_;
};

/// How much a request wants of a unit.
struct unit_amount {
  unit_key unit;
  std::uint64_t amount;
};

/// How much a request wants of units other than the first one: `{.amounts = {{"tokens", 1200}, {"bytes", 40}}}`.
///
/// It wants nothing of a unit that is not in it, and does not wait for that unit. A value; it allocates nothing.
class unit_amounts {
 public:
  /// The most units that a request can name, and one less than a limiter can have.
  static constexpr std::size_t most = 4;

  unit_amounts() noexcept {}
  // There is no std::initializer_list, because g++ 12 refuses one inside a co_await.
  unit_amounts(unit_amount a) noexcept { append(a); }
  unit_amounts(unit_amount a, unit_amount b) noexcept : unit_amounts{a} { append(b); }
  unit_amounts(unit_amount a, unit_amount b, unit_amount c) noexcept : unit_amounts{a, b} { append(c); }
  unit_amounts(unit_amount a, unit_amount b, unit_amount c, unit_amount d) noexcept : unit_amounts{a, b, c} {
    append(d);
  }
  // Copies the amounts. Usually there are none, and then this costs one comparison.
  unit_amounts(const unit_amounts& other) noexcept { copy(other); }
  unit_amounts& operator=(const unit_amounts& other) noexcept {
    copy(other);
    return *this;
  }
  ~unit_amounts() = default;

  /// Errors: errc::invalid_argument if there are `most` already.
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
  unit_amount items_[most];  // the items from size_ on have no value
};

class flow;

/// A request to a limit: how much, how important, and until when a grant is of use.
struct request {
  int priority = 0;                    ///< class, 0 (first) … priorities-1
  std::uint64_t tokens = 1;            ///< 1 or more; more than the burst is errc::too_large
  deadline_point deadline = {};        ///< a grant later than this is of no use
  const canigo::flow* flow = nullptr;  ///< the share of the limit that it takes; null: a nameless flow of weight 1
  unit_amounts amounts = {};           ///< how much of each other unit, for a limiter whose rates have several
  std::uint64_t tag = 0;               ///< a number of the caller's choice; the limit's waiting() shows it
  /// For a repeat: when it arrived first. Its place in its class, its ageing and its wait count from then. An instant
  /// in the future counts as now. In a limit with flows, this is its place in its flow; between flows, shares decide.
  time_point since = time_point::max();
  /// Which alternatives of a limiter may serve it, as a bit mask: bit 0 is the first one. Bits without an alternative
  /// mean nothing, and a limit without alternatives ignores it.
  std::uint64_t alternatives = ~std::uint64_t{0};
};

/// How a full queue treats a newcomer.
enum class overflow {
  reject_new,    ///< the newcomer ends with errc::queue_full
  evict_oldest,  ///< the waiter that waits longest ends with errc::evicted and makes room
  /// The youngest waiter of the least important class ends with errc::evicted, if that class is less important than the
  /// newcomer's. Otherwise the newcomer ends with errc::queue_full. With flows, see canigo::flow.
  evict_least_important,
  wait,  ///< the newcomer is held back until there is room; for run() and async_run() of pools only
};

}  // namespace canigo
