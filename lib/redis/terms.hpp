#pragma once

#include "canigo/detail/queue/units.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include "sync.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace canigo::redis::detail {

using canigo::detail::demand;
using canigo::detail::unit_table;

/// The largest burst, cap, charge, refund or settlement.
inline constexpr std::uint64_t most_tokens = std::uint64_t{1} << 31;
/// Returns `n`. Errors: errc::invalid_argument, which names `field`, if `n` is less than `least` or more than
/// most_tokens.
std::uint64_t checked_tokens(std::string_view field, std::uint64_t n, std::uint64_t least);

/// The settings of a limit, and the changes by this process that Redis does not know yet.
///
/// A change applies in this process at once. Each call tells Redis of it until one is answered, or until the change's
/// time is over during an outage. Charges and refunds are told as a total, so that the loss of a call has no effect.
class terms {
 public:
  /// `permits`: 0 for no cap. `units`: the units of a limiter.
  ///
  /// Errors: errc::invalid_argument for a burst that is too large at its rate.
  terms(std::uint64_t permits, const std::vector<rate_limit>& rates, std::shared_ptr<const unit_table> units = nullptr);

  const limit_settings& settings() const noexcept { return settings_; }
  /// The units of a limiter; null for other limits.
  const unit_table* units() const noexcept { return units_.get(); }
  /// The largest amount of a unit that one request may ask for; without a rate, the number of permits.
  std::uint64_t most(std::size_t unit = 0) const noexcept;
  bool fits(const demand& wanted) const noexcept;
  time_point paused_until() const noexcept { return paused_until_; }

  // Each change is told to Redis until `tell_until`.

  void set_permits(std::uint64_t n, time_point tell_until) noexcept;
  /// Changes the rate with that index. Errors: errc::invalid_argument for an unknown index, and for a burst that is out
  /// of range.
  void set_rate(std::size_t index, const canigo::rate& r, time_point tell_until);
  void set_burst(std::size_t index, std::uint64_t n, time_point tell_until);
  void pause_until(time_point t, time_point now, time_point tell_until) noexcept;
  /// Notes that an amount of a unit was used without a grant. A negative amount was given back.
  void charge(std::size_t unit, std::int64_t amount, time_point tell_until) noexcept;

  /// Whether there are changes that Redis has not confirmed yet.
  bool has_untold() const noexcept {
    return unsaid_ != 0 || (charged_ != charged_and_answered_ && charged_ != overdue_);
  }
  /// Call it when Redis fails. Drops the settings whose time to be told is over. Charges are never dropped, because a
  /// lost call may have told them. But overdue charges alone cause no call.
  void forget_overdue(time_point now) noexcept;

  /// Adds the settings and the changes to a call.
  void write(sync_call& s, time_point now) const noexcept;
  void call_begins() noexcept;
  /// Call it when the call has failed, or Redis has not carried it out: the next call tells the same.
  void tell_again() noexcept;
  /// Notes that Redis knows the changes of settings that the call contained.
  void told() noexcept;
  /// Notes that Redis knows the charges that the call contained.
  void charged() noexcept { charged_and_answered_ = overdue_ = charged_under_way_; }
  /// Takes over the settings of all processes, except for a setting that this process has changed since.
  void adopt(const limit_settings& s, time_point now) noexcept;

  /// Stores the answer to a call that began at `called_at`: how long the quarantine lasts, and when each bucket will
  /// have tokens. Below 0: since when it has had some.
  void heard(time_point called_at, duration quarantine, const std::array<duration, most_rates>& empty_in) noexcept;
  /// The earliest time at which a request may be granted: `now`, or the end of a pause or of a quarantine.
  time_point opens_at(time_point now) const noexcept;
  /// Returns how long it takes from `now` until so many tokens of each unit have accumulated; 0 if the buckets are
  /// unknown.
  duration time_until(const std::array<double, most_units>& tokens, time_point now) const noexcept;

 private:
  void check_index(const char* field, std::size_t index) const;
  void adopt_rate(std::size_t index, const canigo::rate& r, std::uint64_t burst, const std::string& field,
                  bool is_of_rate);

  const std::shared_ptr<const unit_table> units_;
  limit_settings settings_;
  time_point paused_until_ = time_point::min();
  std::uint64_t shape_ = 0;
  std::uint64_t unsaid_ = 0;            // the settings changed by this process, as a sum of `setting`
  std::uint64_t unsaid_under_way_ = 0;  // the settings of `unsaid_` that the running call contains
  using totals = std::array<std::int64_t, most_units>;
  totals charged_{};  // the amount charged of each unit, less what was given back
  totals charged_under_way_{};
  totals charged_and_answered_{};
  totals overdue_{};  // charges up to these totals cause no call
  time_point tell_until_ = time_point::max();
  time_point closed_until_ = time_point::min();  // the end of a quarantine
  bool is_heard_ = false;                        // whether the state of the buckets is known
  std::array<time_point, most_rates> empty_at_{};
};

}  // namespace canigo::redis::detail
