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

/// The most tokens of a burst, a cap, a charge, a refund or a settlement.
inline constexpr std::uint64_t most_tokens = std::uint64_t{1} << 31;
/// `n`. Errors: errc::invalid_argument, naming `field`, if it is less than `least` or more than most_tokens.
std::uint64_t checked_tokens(std::string_view field, std::uint64_t n, std::uint64_t least);

/// The settings of a limit, and the changes of this process that Redis does not know yet.
///
/// A change counts here at once. It is told with every call until one is answered, or until its time is over during an
/// outage. Tokens that are charged or given back are told as a total, so that a call that was lost costs nothing.
class terms {
 public:
  /// `permits`: 0 for no cap. `units` are those of a limiter.
  ///
  /// Errors: errc::invalid_argument for a burst that is too large at its rate.
  terms(std::uint64_t permits, const std::vector<rate_limit>& rates, std::shared_ptr<const unit_table> units = nullptr);

  const limit_settings& settings() const noexcept { return settings_; }
  /// The units of a limiter, or null.
  const unit_table* units() const noexcept { return units_.get(); }
  /// The most of a unit that one request may ask for; without a rate, the most permits.
  std::uint64_t most(std::size_t unit = 0) const noexcept;
  bool fits(const demand& wanted) const noexcept;
  time_point paused_until() const noexcept { return paused_until_; }

  // ---- changes; Redis is to be told of each until `tell_until` ----

  void set_permits(std::uint64_t n, time_point tell_until) noexcept;
  /// Changes the rate with that index. Errors: errc::invalid_argument for an unknown index, and for a burst out of
  /// range.
  void set_rate(std::size_t index, const canigo::rate& r, time_point tell_until);
  void set_burst(std::size_t index, std::uint64_t n, time_point tell_until);
  void pause_until(time_point t, time_point now, time_point tell_until) noexcept;
  /// Notes that an amount of a unit was used without a grant; below 0: that it was given back.
  void charge(std::size_t unit, std::int64_t amount, time_point tell_until) noexcept;

  /// Whether there are changes that Redis has not confirmed yet.
  bool has_untold() const noexcept {
    return unsaid_ != 0 || (charged_ != charged_and_answered_ && charged_ != overdue_);
  }
  /// Call it when Redis fails. Drops the settings that should have been told by now. Charges are never dropped, because
  /// a call that was lost may have told them. But no call is made only for charges that are overdue.
  void forget_overdue(time_point now) noexcept;

  // ---- calls ----

  /// Adds the settings and the changes.
  void write(sync_call& s, time_point now) const noexcept;
  void call_begins() noexcept;
  /// The call has failed, or Redis has not carried it out: the next call says the same.
  void tell_again() noexcept;
  /// Redis knows the changes of settings that the call told.
  void told() noexcept;
  /// Redis knows the charges that the call told.
  void charged() noexcept { charged_and_answered_ = overdue_ = charged_under_way_; }
  /// Takes over the settings of all processes. A setting that this process changed since stays.
  void adopt(const limit_settings& s, time_point now) noexcept;

  // ---- estimates ----

  /// The answer to a call that began at `called_at`: how long the quarantine lasts, and when each bucket is empty no
  /// more. Below 0: since when it has been filling.
  void heard(time_point called_at, duration quarantine, const std::array<duration, most_rates>& empty_in) noexcept;
  /// When a request may be granted at the earliest: `now`, or the end of a pause or of a quarantine.
  time_point opens_at(time_point now) const noexcept;
  /// How long it takes from `now` until so many tokens of each unit have come in; 0 if nothing is known of the buckets.
  duration time_until(const std::array<double, most_units>& tokens, time_point now) const noexcept;

 private:
  void check_index(const char* field, std::size_t index) const;
  void adopt_rate(std::size_t index, const canigo::rate& r, std::uint64_t burst, const std::string& field,
                  bool is_of_rate);

  const std::shared_ptr<const unit_table> units_;
  limit_settings settings_;
  time_point paused_until_ = time_point::min();
  std::uint64_t shape_ = 0;
  std::uint64_t unsaid_ = 0;            // settings changed here, as a sum of `setting`
  std::uint64_t unsaid_under_way_ = 0;  // the settings of `unsaid_` that the call under way tells
  using totals = std::array<std::int64_t, most_units>;
  totals charged_{};  // the amount charged of each unit, less what was given back
  totals charged_under_way_{};
  totals charged_and_answered_{};
  totals overdue_{};  // charges up to these totals need no call of their own
  time_point tell_until_ = time_point::max();
  time_point closed_until_ = time_point::min();  // the end of a quarantine
  bool is_heard_ = false;                        // whether the buckets are known
  std::array<time_point, most_rates> empty_at_{};
};

}  // namespace canigo::redis::detail
