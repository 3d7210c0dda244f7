#pragma once

#include "canigo/detail/queue/units.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/reply.hpp"
#include "canigo/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::redis::detail {

using canigo::detail::amounts_by_unit;
using canigo::detail::most_units;
using canigo::detail::uint128;

/// The max numbers of rates of a limit. most_own_rates does not count the rates of its alternatives; most_rates counts
/// them, too.
inline constexpr std::size_t most_own_rates = 16;
inline constexpr std::size_t most_rates = 128;
/// The max number of alternatives of a limit.
inline constexpr std::size_t most_alternatives = 64;

/// A rate in the units of the script.
struct rate_setting {
  std::uint64_t tokens = 0;
  std::uint64_t period = 0;  // the period in microseconds
  std::uint64_t burst = 1;
  std::size_t unit = 0;
};

/// The settings of an alternative, in the units of the script.
struct alternative_setting {
  std::uint64_t permits = 0;  // the cap of the alternative; 0: no cap
  std::int64_t pause = 0;     // the remaining microseconds of the pause; below 0: the pause lasts until resume()
};

/// The settings that all processes share. If processes have different versions of the settings, the newest version is
/// used. `rates` begins with the common rates, which limit all requests. After them come the rates of the alternatives.
/// The first rate counts the first unit. Without common rates, the first rate has 0 tokens and counts nothing.
struct limit_settings {
  std::uint64_t version = 0;
  std::uint64_t permits = 0;  // the cap of the limit; 0: no cap
  std::array<rate_setting, most_rates> rates{};
  std::size_t rate_count = 0;
  std::int64_t pause = 0;  // the remaining microseconds of the pause; below 0: the pause lasts until resume()
  std::vector<alternative_setting> alternatives = {};
};

/// A set of flags, one for each setting. For example, it tells which settings a call changes for all processes.
struct setting {
  static constexpr setting permits() noexcept { return {.other = 1}; }
  static constexpr setting pause() noexcept { return {.other = 2}; }
  /// rate_of() returns the flag of the rate with index `i`, and burst_of() the flag of that rate's burst.
  static constexpr setting rate_of(std::size_t i) noexcept { return {.rates = uint128{1} << i}; }
  static constexpr setting burst_of(std::size_t i) noexcept { return {.bursts = uint128{1} << i}; }
  /// Each function returns one flag of alternative `i`. permits_of(): the flag of its cap. pause_of(): the flag of its
  /// pause. longer_pause_of(): the flag of a pause that replaces only a shorter pause.
  static constexpr setting permits_of(std::size_t i) noexcept { return {.caps = std::uint64_t{1} << i}; }
  static constexpr setting pause_of(std::size_t i) noexcept { return {.pauses = std::uint64_t{1} << i}; }
  static constexpr setting longer_pause_of(std::size_t i) noexcept { return {.longer_pauses = std::uint64_t{1} << i}; }

  constexpr setting& operator|=(const setting& o) noexcept { return *this = *this | o; }
  constexpr setting operator|(const setting& o) const noexcept {
    return {other | o.other, rates | o.rates,   bursts | o.bursts,
            caps | o.caps,   pauses | o.pauses, longer_pauses | o.longer_pauses};
  }
  constexpr setting without(const setting& o) const noexcept {
    return {other & ~o.other, rates & ~o.rates,   bursts & ~o.bursts,
            caps & ~o.caps,   pauses & ~o.pauses, longer_pauses & ~o.longer_pauses};
  }
  constexpr bool has(const setting& o) const noexcept { return o.without(*this) == setting{}; }
  constexpr bool is_empty() const noexcept { return *this == setting{}; }
  /// Whether this set contains a setting of an alternative, or of a rate other than the first rate.
  constexpr bool is_of_further() const noexcept { return (rates | bursts) > 1 || (caps | pauses | longer_pauses) != 0; }
  bool operator==(const setting&) const = default;

  std::uint64_t other = 0;
  uint128 rates = 0;
  uint128 bursts = 0;
  std::uint64_t caps = 0;
  std::uint64_t pauses = 0;
  std::uint64_t longer_pauses = 0;
};

/// The total charge of one unit. `before`: the charge up to the latest call of the script that Redis answered. `now`:
/// the charge up to now.
struct charge_total {
  std::int64_t before = 0;
  std::int64_t now = 0;
};

/// The contents of one call of the Redis script by a session.
struct sync_call {
  struct wish {
    std::uint64_t id;
    int priority;  // the request's class; below 0: the request must be granted immediately, or refused
    std::uint64_t weight;
    amounts_by_unit amounts{};  // the amounts of the second and later units; `weight` is the amount of the first unit
    std::uint64_t set = 0;      // the alternatives that can serve the request
  };
  struct withdrawal {
    std::uint64_t id;
    std::uint64_t weight;
    amounts_by_unit amounts{};
    std::uint64_t set = 0;
    bool operator==(const withdrawal&) const = default;
  };

  std::string_view prefix;
  std::string_view session;
  std::uint64_t sequence = 0;
  duration lease{};
  bool quarantine = true;
  bool leave = false;
  bool is_subscribed = false;  // whether the Redis node that gets this call has confirmed the session's subscription
  std::uint64_t held = 0;
  std::uint64_t idle = 0;
  std::uint64_t ahead = 0;
  limit_settings settings;
  setting changes;          // the settings that the call changes
  std::uint64_t shape = 0;  // for a limiter: a hash of its units; 0: the limit has one rate at most
  std::size_t units = 1;
  std::array<charge_total, most_units> charged{};
  /// The values that this call of the script sends for one alternative.
  struct alternative {
    int prefer = 1;
    std::size_t rates = 0;
    std::uint64_t held = 0;
    std::array<charge_total, most_units> charged{};
  };
  std::vector<alternative> alternatives;
  std::uint64_t seen = 0;   // the greatest fencing token that this process has seen
  std::int64_t latest = 0;  // the latest time that the server's clock can have now, in microseconds; 0: unknown
  std::int64_t epoch = 0;   // the epoch of the answer on which `latest` is based
  const std::vector<std::uint64_t>* acknowledged = nullptr;
  const std::vector<withdrawal>* cancels = nullptr;
  std::vector<wish> wanted;

  command encoded(bool with_text) const;
};

/// The parsed answer of the Redis script.
struct sync_answer {
  enum class status { ok, no_session, other_form, other_shape, other };
  /// A group of waiters with consecutive numbers.
  struct run {
    std::uint64_t first;
    std::uint64_t count;
    // The fencing token of the run's first waiter; each further waiter of the run has the next token. 0: the request is
    // too large. -1: the request can't be granted now. -2: waiters have too many different sets of alternatives.
    std::int64_t token;
    std::size_t from = 0;  // the alternative that granted the request
    bool is_news = true;   // whether no earlier message or answer has reported this grant
  };
  /// The state of one alternative, as the answer reports it.
  struct alternative {
    std::uint64_t held_by_all = 0;
    alternative_setting settings;
  };

  explicit sync_answer(const reply& r);

  status what = status::other;
  std::optional<duration> next;  // the time until the next call of the script can be useful; none: not known
  std::uint64_t queue = 0;
  std::uint64_t held_by_all = 0;
  duration quarantine{};
  std::int64_t epoch = 0;
  // For each rate: the time until its bucket has tokens. A negative value tells how long the bucket has already had
  // tokens.
  std::array<duration, most_rates> empty{};
  std::uint64_t ahead = 0;
  std::optional<limit_settings> settings;
  std::vector<run> grants;
  std::vector<alternative> alternatives;
  std::int64_t now = 0;  // the server's time in microseconds
  int form = 0;          // the format of the limit's data in Redis, if it differs from limit_form; otherwise 0
};

/// Encodes numbers for the script: as little-endian doubles.
std::string packed(std::span<const double> numbers);

/// Converts microseconds to a duration. The result is bounded, because the number comes from the server.
duration us(std::int64_t n) noexcept;

/// Parses a whole number; returns 0 for any other text.
std::uint64_t number(std::string_view text) noexcept;

}  // namespace canigo::redis::detail
