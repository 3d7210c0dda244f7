#pragma once

#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include "sync.hpp"

#include <cstdint>
#include <optional>

namespace canigo::redis::detail {

/// The settings of a limit, and the changes of this process that Redis does not know yet.
///
/// A change counts here at once. It is told with every call until one is answered, or until its time is over during an
/// outage. Tokens that are charged or given back are told as a total, so that a call that was lost costs nothing.
class terms {
 public:
  /// Errors: errc::invalid_argument for a burst that is too large at this rate.
  terms(std::uint64_t permits, const std::optional<canigo::rate>& rate, std::uint64_t burst);

  const limit_settings& settings() const noexcept { return settings_; }
  /// The most that one request may ask for.
  std::uint64_t most() const noexcept { return is_rate_ ? settings_.burst : settings_.permits; }
  time_point paused_until() const noexcept { return paused_until_; }

  // ---- changes; Redis is to be told of each until `tell_until` ----

  void set_permits(std::uint64_t n, time_point tell_until) noexcept;
  void set_rate(const canigo::rate& r, time_point tell_until);
  void set_burst(std::uint64_t n, time_point tell_until);
  void pause_until(time_point t, time_point now, time_point tell_until) noexcept;
  /// Tokens were used without a grant; below 0: were given back.
  void charge(std::int64_t tokens, time_point tell_until) noexcept;

  /// Whether there are changes that no answered call has told.
  bool has_untold() const noexcept { return unsaid_ != 0 || charged_ != charged_and_answered_; }
  /// Redis fails: drops the changes that should have been told by now.
  void forget_overdue(time_point now) noexcept;

  // ---- calls ----

  /// Adds the settings and the changes.
  void write(sync_call& s, time_point now) const noexcept;
  void call_begins() noexcept;
  /// The call has failed, or Redis has not carried it out: the next call says the same.
  void tell_again() noexcept;
  /// Redis knows the changes of the call.
  void told() noexcept;
  /// Redis knows the charges of the call.
  void charged() noexcept { charged_and_answered_ = charged_under_way_; }
  /// Takes over the settings of all processes, except for those that were changed here since.
  void adopt(const limit_settings& s, time_point now) noexcept;

  // ---- estimates ----

  /// The answer to a call that began at `called_at`: how long the quarantine lasts, and when the bucket is empty no
  /// more. Below 0: since when it has been filling.
  void heard(time_point called_at, duration quarantine, duration empty_in) noexcept;
  /// When a request may be granted at the earliest: `now`, or the end of a pause or of a quarantine.
  time_point opens_at(time_point now) const noexcept;
  /// How long it takes from `now` until so many tokens have come in; 0 if nothing is known of the bucket.
  duration time_until(double tokens, time_point now) const noexcept;

 private:
  void adopt_rate(const canigo::rate& r, std::uint64_t burst);
  duration time_of(double tokens) const noexcept;

  const bool is_rate_;
  limit_settings settings_;
  time_point paused_until_ = time_point::min();
  unsigned unsaid_ = 0;            // of setting: changed here
  unsigned unsaid_under_way_ = 0;  // told by the call under way
  std::int64_t charged_ = 0;       // tokens in all, less what was given back
  std::int64_t charged_under_way_ = 0;
  std::int64_t charged_and_answered_ = 0;
  time_point tell_until_ = time_point::max();
  time_point closed_until_ = time_point::min();  // for a quarantine
  time_point empty_at_ = time_point::min();      // the bucket; min(): not known
};

}  // namespace canigo::redis::detail
