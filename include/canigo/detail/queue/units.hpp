#pragma once

#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace canigo::detail {

/// The most units that a limit can have.
inline constexpr std::size_t most_units = 1 + unit_amounts::most;

/// How much one request wants of each unit; of the first one, its tokens.
using amounts_by_unit = std::array<std::uint64_t, most_units>;

/// How much a request wants of the rates. Without `others` it wants nothing of any unit but the first.
struct demand {
  demand(std::uint64_t first, const amounts_by_unit* all = nullptr) noexcept : tokens{first}, others{all} {}

  std::uint64_t of(std::size_t unit) const noexcept {
    return unit == 0 ? tokens : others != nullptr ? (*others)[unit] : 0;
  }

  std::uint64_t tokens;
  const amounts_by_unit* others;
};

/// The names of the units of a limit, and which rate has which. Unit 0 is that of the first rate.
///
/// A rate without a name has unit 0. A value; it allocates in the constructor and for the text of an error.
class unit_table {
 public:
  /// One name for each rate.
  ///
  /// Errors: errc::invalid_argument for more than most_units, naming the rate as one of `field`.
  unit_table(const std::vector<std::string>& of_rates, const char* field);

  std::size_t size() const noexcept { return names_.size(); }
  std::size_t of_rate(std::size_t rate) const noexcept { return of_rate_[rate]; }
  const std::vector<std::uint8_t>& of_rates() const noexcept { return of_rate_; }
  const std::string& name(std::size_t unit) const noexcept { return names_[unit]; }

  /// The number of a unit; size() if no unit has that name or number.
  std::size_t find(const unit_key& unit) const noexcept;
  /// Writes what a request wants of each unit. False if a unit is unknown, is there twice, or is the first one.
  bool resolve(std::uint64_t tokens, const unit_amounts& amounts, amounts_by_unit& result) const noexcept;

  /// Throws the reason for which resolve() returns false, naming the unit.
  void check(const unit_amounts& amounts) const;
  /// A key as the text of an error shows it.
  static std::string quoted(const unit_key& unit);
  /// The names of the units from `first` on.
  std::string listed(std::size_t first) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::uint8_t> of_rate_;
};

/// How much a request that waits, or its permit, wants of each unit.
struct unit_record {
  amounts_by_unit amounts{};
  time_point granted_at = time_point::min();  // min: no grant so far
  std::uint64_t asked = 0;                    // the set of alternatives that the request allows
  std::uint64_t set = 0;                      // those of them that can serve it, while it waits
  std::size_t alternative = 0;                // the one that it was granted from
  unit_record* next = nullptr;                // the next record that is free, or promised
};

/// Records that come back are kept for the next request. Allocates: a record if more are in use than ever before.
///
/// Threads: none; its owner holds a lock.
class unit_records {
 public:
  unit_records() = default;
  unit_records(const unit_records&) = delete;
  unit_records& operator=(const unit_records&) = delete;
  ~unit_records();

  /// A record, or nullptr if there is no memory for it.
  unit_record* take() noexcept { return reserve() ? pop() : nullptr; }
  void put_back(unit_record* r) noexcept;

  /// Makes sure that there is a record for the next take() or promise(). False if there is no memory.
  bool reserve() noexcept { return free_ != nullptr || add(); }
  /// Keeps a record that was reserved for one take_promised(), with the time of the grant. If several threads promise
  /// grants at once, each grant may get the time of another: the calls overlap.
  unit_record& promise(time_point granted_at) noexcept;
  unit_record* take_promised() noexcept { return take_from(promised_); }
  /// Like take_promised(), if grants come from alternatives: for a request of this set and these amounts.
  unit_record* take_promised(std::uint64_t asked, const amounts_by_unit& amounts) noexcept;

 private:
  bool add() noexcept;
  unit_record* pop() noexcept;
  static unit_record* take_from(unit_record*& list) noexcept;

  unit_record* free_ = nullptr;
  unit_record* promised_ = nullptr;
};

}  // namespace canigo::detail
