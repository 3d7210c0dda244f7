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

/// The most rates that one limit can have.
inline constexpr std::size_t most_rates = 16;

/// A rate in the numbers of the script.
struct rate_setting {
  std::uint64_t tokens = 0;
  std::uint64_t period = 0;  // us
  std::uint64_t burst = 1;
  std::size_t unit = 0;
};

/// The settings that all processes agree on; the newest version counts. The first rate counts the first unit.
struct limit_settings {
  std::uint64_t version = 0;
  std::uint64_t permits = 0;  // 0: no cap
  std::array<rate_setting, most_rates> rates{};
  std::size_t rate_count = 0;
  std::int64_t pause = 0;  // us that are left; below 0: until further notice
};

/// The settings that a call changes for all processes.
struct setting {
  enum : std::uint64_t { permits = 1, pause = 2, first_rate = 4 };
  /// The rate with that index, and its burst.
  static constexpr std::uint64_t rate_of(std::size_t index) noexcept { return std::uint64_t{first_rate} << 2 * index; }
  static constexpr std::uint64_t burst_of(std::size_t index) noexcept { return rate_of(index) << 1; }
};

/// The amount of a unit that was charged in all, until the last answered call and until now.
struct charge_total {
  std::int64_t before = 0;
  std::int64_t now = 0;
};

/// The message of a session to the script, in one call.
struct sync_call {
  struct wish {
    std::uint64_t id;
    int priority;  // below 0: grant it at once, or refuse it
    std::uint64_t weight;
    amounts_by_unit amounts{};  // only the amounts of further units count
  };
  struct withdrawal {
    std::uint64_t id;
    std::uint64_t weight;
    amounts_by_unit amounts{};
    bool operator==(const withdrawal&) const = default;
  };

  std::string_view prefix;
  std::string_view session;
  std::uint64_t sequence = 0;
  duration lease{};
  bool quarantine = true;
  bool leave = false;
  bool is_subscribed = false;  // the node that is called has said that it publishes to this session
  std::uint64_t held = 0;
  std::uint64_t idle = 0;
  std::uint64_t ahead = 0;
  limit_settings settings;
  std::uint64_t changes = 0;  // the settings that the call changes: a sum of `setting`
  std::uint64_t shape = 0;    // of a limiter: a number for its units; 0: it has one rate at most
  std::size_t units = 1;
  std::array<charge_total, most_units> charged{};
  std::uint64_t seen = 0;   // the greatest token that is known here
  std::int64_t latest = 0;  // us: the latest time that it can be where the script runs; 0: not known
  std::int64_t epoch = 0;   // the epoch of the answer that tells `latest`
  const std::vector<std::uint64_t>* acknowledged = nullptr;
  const std::vector<withdrawal>* cancels = nullptr;
  std::vector<wish> wanted;

  command encoded(bool with_text) const;
};

/// The answer of the script.
struct sync_answer {
  enum class status { ok, no_session, other_form, other_shape, other };
  /// Waiters whose numbers follow each other.
  struct run {
    std::uint64_t first;
    std::uint64_t count;
    std::int64_t token;   // the token of the first waiter, and the others follow; 0: too heavy; -1: not now
    bool is_news = true;  // not told of before, by push or by an answer
  };

  explicit sync_answer(const reply& r);

  status what = status::other;
  std::optional<duration> next;  // how long until the next useful call
  std::uint64_t queue = 0;
  std::uint64_t held_by_all = 0;
  duration quarantine{};
  std::int64_t epoch = 0;
  std::array<duration, most_rates> empty{};  // until the bucket of each rate is empty no more; below 0: since when
  std::uint64_t ahead = 0;
  std::optional<limit_settings> settings;
  std::vector<run> grants;
  std::int64_t now = 0;  // us: the time there
  int form = 0;          // the form of the limit, if it is not ours
};

/// Numbers as the script reads them: doubles, the least byte first.
std::string packed(std::span<const double> numbers);

/// A time span in microseconds. Bounded, because the number comes from the server.
duration us(std::int64_t n) noexcept;

/// A whole number as text; 0 for anything else.
std::uint64_t number(std::string_view text) noexcept;

}  // namespace canigo::redis::detail
