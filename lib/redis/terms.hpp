#pragma once

#include "canigo/detail/queue/units.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include "sync.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
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

/// The options of one alternative of a limit.
struct alternative_terms {
  std::string name;
  std::size_t rates = 0;      // the number of the limit's rates that belong to this alternative
  std::uint64_t permits = 0;  // the cap of the alternative; 0: no cap
  int prefer = 1;
};

/// The settings of a limit, and the changes by this process that Redis does not know yet.
///
/// A change applies in this process immediately. Each call of the Redis script reports the change, until Redis has
/// answered such a call. During an outage of Redis, the changes of settings are dropped after the time `tell_until`
/// that was passed with the last change or charge. Charges and refunds are reported as totals, so that no charge is
/// missing after a call was lost.
class terms {
 public:
  /// `permits`: 0 for no cap. `units`: the units of a limiter. `rates`: the common rates, then the rates of each
  /// alternative in the order of `alternatives`.
  ///
  /// Errors: errc::invalid_argument for a burst that is too large at its rate.
  terms(std::uint64_t permits, const std::vector<rate_limit>& rates, std::shared_ptr<const unit_table> units = nullptr,
        std::vector<alternative_terms> alternatives = {});

  const limit_settings& settings() const noexcept { return settings_; }
  /// The units of a limiter; null for other limits.
  const unit_table* units() const noexcept { return units_.get(); }
  /// The largest amount of a unit that one request may ask for; without a rate, the number of permits.
  std::uint64_t most(std::size_t unit = 0) const noexcept;
  bool fits(const demand& wanted) const noexcept;
  time_point paused_until() const noexcept { return paused_until_; }

  bool has_alternatives() const noexcept { return !alternatives_.empty(); }
  const std::vector<alternative_terms>& alternatives() const noexcept { return alternatives_; }
  std::uint64_t all_alternatives() const noexcept {
    return alternatives_.empty() ? 0 : ~std::uint64_t{0} >> (most_alternatives - alternatives_.size());
  }
  /// The index in settings().rates of the first rate of an alternative.
  std::size_t first_rate_of(std::size_t alternative) const noexcept { return first_rates_[alternative]; }
  /// Returns the alternatives of `set` whose bursts are large enough for the demand `wanted`.
  std::uint64_t that_fit(std::uint64_t set, const demand& wanted) const noexcept;
  /// The largest amount of a unit that a single alternative of a set can grant to one request.
  std::uint64_t most_of(std::uint64_t set, std::size_t unit) const noexcept;
  time_point alternative_paused_until(std::size_t i) const noexcept { return paused_[i]; }
  /// The alternatives of a set that are not paused.
  std::uint64_t not_paused(std::uint64_t set, time_point now) const noexcept;
  /// The earliest instant at which one of the alternatives in a set is no longer paused.
  time_point first_resumes_at(std::uint64_t set) const noexcept;

  // The following functions change settings. Until `tell_until`, calls of the Redis script report the change to Redis.

  void set_permits(std::uint64_t n, time_point tell_until) noexcept;
  /// Changes the rate with the index `index`. Errors: errc::invalid_argument for an unknown index, and for a burst that
  /// is out of range.
  void set_rate(std::size_t index, const canigo::rate& r, time_point tell_until);
  void set_burst(std::size_t index, std::uint64_t n, time_point tell_until);
  /// These functions change an alternative: a rate, a burst, the cap or the pause. `index`: 0 is the alternative's
  /// first rate. `may_end`: whether the pause may become shorter.
  void set_rate_of(std::size_t alternative, std::size_t index, const canigo::rate& r, time_point tell_until);
  void set_burst_of(std::size_t alternative, std::size_t index, std::uint64_t n, time_point tell_until);
  void set_permits_of(std::size_t alternative, std::uint64_t n, time_point tell_until) noexcept;
  void pause_alternative(std::size_t alternative, time_point t, bool may_end, time_point now,
                         time_point tell_until) noexcept;
  void pause_until(time_point t, time_point now, time_point tell_until) noexcept;
  /// Adds to the charges an amount of a unit that was used without a grant. A negative amount is a refund.
  void charge(std::size_t unit, std::int64_t amount, time_point tell_until) noexcept;
  /// Like charge(), for the rates of one alternative.
  void charge_at(std::size_t alternative, std::size_t unit, std::int64_t amount, time_point tell_until) noexcept;

  /// Whether there is a change that a call of the Redis script must report: a changed setting that no call contains
  /// yet, or an unconfirmed charge that is not overdue.
  bool has_untold() const noexcept {
    return !unsaid_.is_empty() || (charged_ != charged_and_answered_ && charged_ != overdue_);
  }
  /// Call it when Redis fails. If the `tell_until` of the last change or charge has passed, drops all unconfirmed
  /// changes of settings. Charges are never dropped, because a call whose answer was lost may have reported them. But
  /// overdue charges, whose `tell_until` has passed, do not cause a call of the script by themselves.
  void forget_overdue(time_point now) noexcept;

  /// Adds the settings and the changes to a call of the Redis script. May throw std::bad_alloc if the limit has
  /// alternatives.
  void write(sync_call& s, time_point now) const;
  void call_begins() noexcept;
  /// Call it when a call of the script has failed or has had no effect. Then the next call of the script reports the
  /// same changes again.
  void tell_again() noexcept;
  /// Call it when Redis has confirmed the changes of settings in the last call of the script.
  void told() noexcept;
  /// Call it when Redis has confirmed the charges in the last call of the script.
  void charged() noexcept { charged_and_answered_ = overdue_ = charged_under_way_; }
  /// Copies the settings `s` from an answer of Redis, except those that this process has changed since the call began.
  void adopt(const limit_settings& s, time_point now) noexcept;

  /// Stores the answer to a call that began at `called_at`. `quarantine`: how much longer the quarantine lasts.
  /// `empty_in`: how much longer each bucket stays empty. A negative element: for how long the bucket has had tokens.
  void heard(time_point called_at, duration quarantine, const std::array<duration, most_rates>& empty_in) noexcept;
  /// The earliest time at which a request may be granted: the latest of `now`, the end of the pause and the end of the
  /// quarantine.
  time_point opens_at(time_point now) const noexcept;
  /// Returns the time from `now` until the buckets have gathered `tokens`, an amount for each unit; 0 if the state of
  /// the buckets is unknown.
  duration time_until(const std::array<double, most_units>& tokens, time_point now) const noexcept;
  /// A lower bound on the time from `now` until the alternatives of a set have granted several requests. `all` is the
  /// sum of their demands, and `own` the demand of the last request. A pause that ends only by resume() is ignored,
  /// because resume() may be called at any moment.
  duration time_until_any(std::uint64_t set, const std::array<double, most_units>& own,
                          const std::array<double, most_units>& all, time_point now) const noexcept;

 private:
  void check_index(const char* field, std::size_t index) const;
  std::size_t checked_rate(const char* field, std::size_t alternative, std::size_t index) const;
  std::uint64_t most_in(std::size_t first, std::size_t end, std::size_t unit) const noexcept;
  duration time_in(std::size_t first, std::size_t end, const std::array<double, most_units>& tokens,
                   time_point now) const noexcept;
  duration time_of_unit(std::uint64_t set, std::size_t unit, double all, time_point now) const noexcept;
  std::int64_t us_of_pause(time_point until, time_point now) const noexcept;
  std::size_t end_of_rates(std::size_t alternative) const noexcept {
    return first_rates_[alternative] + alternatives_[alternative].rates;
  }
  void adopt_rate(std::size_t index, const canigo::rate& r, std::uint64_t burst, const std::string& field,
                  bool is_of_rate);

  const std::shared_ptr<const unit_table> units_;
  const std::vector<alternative_terms> alternatives_;
  std::vector<std::size_t> first_rates_;  // the index of the first rate of each alternative
  std::size_t own_rates_ = 0;             // the number of rates that belong to no alternative
  std::vector<time_point> paused_;        // the end of the pause of each alternative
  limit_settings settings_;
  time_point paused_until_ = time_point::min();
  std::uint64_t shape_ = 0;
  setting unsaid_;            // the settings that this process has changed, and that no call contains yet
  setting unsaid_under_way_;  // the changed settings that the running call of the script contains
  /// The amounts charged, for each unit: to the common rates (`own`), and to the rates of each alternative (`at`).
  struct totals {
    std::array<std::int64_t, most_units> own{};
    std::vector<std::array<std::int64_t, most_units>> at = {};
    bool operator==(const totals&) const = default;
  };
  totals charged_;  // the amount of each unit that was charged, minus the refunds
  totals charged_under_way_;
  totals charged_and_answered_;
  totals overdue_;  // charges up to these totals are past `tell_until`; they alone cause no call of the script
  time_point tell_until_ = time_point::max();
  time_point closed_until_ = time_point::min();  // the end of a quarantine, until which Redis grants nothing
  bool is_heard_ = false;                        // whether the state of the buckets is known
  std::array<time_point, most_rates> empty_at_{};
};

}  // namespace canigo::redis::detail
