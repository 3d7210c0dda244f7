#pragma once

#include "canigo/detail/queue/lane_key.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace canigo::detail {

/// The max number of units of a limit.
inline constexpr std::size_t most_units = 1 + unit_amounts::most;

/// The amounts that a request needs, one for each unit. The amount of the first unit is the number of tokens that the
/// request needs.
using amounts_by_unit = std::array<std::uint64_t, most_units>;

/// The amounts that a request needs. If `others` is null, it needs only the first unit.
struct demand {
  demand(std::uint64_t first, const amounts_by_unit* all = nullptr) noexcept : tokens{first}, others{all} {}

  std::uint64_t of(std::size_t unit) const noexcept {
    return unit == 0 ? tokens : others != nullptr ? (*others)[unit] : 0;
  }

  std::uint64_t tokens;
  const amounts_by_unit* others;
};

/// The names of the units of a limit, and the unit of each rate. Unit 0 is that of the first rate.
///
/// A rate without a unit name has unit 0. The class is a value type. It allocates in the constructor and for the text
/// of an error.
class unit_table {
 public:
  /// `of_rates` has the unit name of each rate.
  ///
  /// Errors: errc::invalid_argument if there are more than most_units units. The message names the rate as an element
  /// of `field`, such as "field[2].unit".
  unit_table(const std::vector<std::string>& of_rates, const char* field);

  std::size_t size() const noexcept { return names_.size(); }
  std::size_t of_rate(std::size_t rate) const noexcept { return of_rate_[rate]; }
  const std::vector<std::uint8_t>& of_rates() const noexcept { return of_rate_; }
  const std::string& name(std::size_t unit) const noexcept { return names_[unit]; }

  /// The number of a unit; size() if no unit has this name or number.
  std::size_t find(const unit_key& unit) const noexcept;
  /// Computes the amount of each unit that a request needs. Returns false if a unit in `amounts` is unknown,
  /// occurs twice, or is the limit's first unit, whose amount is `tokens`.
  bool resolve(std::uint64_t tokens, const unit_amounts& amounts, amounts_by_unit& result) const noexcept;

  /// Throws the reason why resolve() returns false; the message names the unit.
  void check(const unit_amounts& amounts) const;
  /// The key of a unit, as shown in error messages.
  static std::string quoted(const unit_key& unit);
  /// A list of the names of all units from number `first` on.
  std::string listed(std::size_t first) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::uint8_t> of_rate_;
};

/// The amounts of all units that a waiting request needs, or that its permit holds after the grant.
struct unit_record {
  amounts_by_unit amounts{};
  time_point granted_at = time_point::min();  // when the request was granted; min: not granted yet
  std::uint64_t asked = 0;                    // the set of alternatives in the request
  std::uint64_t set = 0;                      // while the request waits: the alternatives in `asked` that can serve it
  std::size_t alternative = 0;                // the alternative that granted the request
  std::uint16_t sublimit = without_sublimit;  // the sublimit that the request names
  unit_record* next = nullptr;                // the next record in the list of free or promised records, see promise()
};

/// A pool of records. Returned records are reused, so the pool allocates only if more records are in use than ever
/// before.
///
/// Threads: not thread-safe; the owner of the pool must hold a lock.
class unit_records {
 public:
  unit_records() = default;
  unit_records(const unit_records&) = delete;
  unit_records& operator=(const unit_records&) = delete;
  ~unit_records();

  /// Returns a record, or nullptr if there is no memory for it.
  unit_record* take() noexcept { return reserve() ? pop() : nullptr; }
  void put_back(unit_record* r) noexcept;

  /// Makes sure that the next take() or promise() finds a record. Returns false if there is no memory.
  bool reserve() noexcept { return free_ != nullptr || add(); }
  /// Stores the time of a grant in a reserved record, for a later take_promised(). If several threads call promise()
  /// before take_promised(), a thread may take the record of another thread. That is harmless, because the calls of
  /// these threads overlap in time.
  unit_record& promise(time_point granted_at) noexcept;
  unit_record* take_promised() noexcept { return take_from(promised_); }
  /// Like take_promised(), for grants from alternatives: takes a record of a request with these alternatives, this
  /// sublimit and these amounts.
  unit_record* take_promised(const lane_key& asked, const amounts_by_unit& amounts) noexcept;

 private:
  bool add() noexcept;
  unit_record* pop() noexcept;
  static unit_record* take_from(unit_record*& list) noexcept;

  unit_record* free_ = nullptr;
  unit_record* promised_ = nullptr;
};

}  // namespace canigo::detail
