#pragma once

#include "gateway/config/money.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The messages by which instances share the sums of their budgets through a script in Redis.
namespace canigo::gateway {

/// A message to Redis: the money that an instance's calls have spent and reserved in the windows of budgets, and the
/// money that new calls request.
///
/// Each sum is the instance's total, not a change since the last statement. So if Redis gets a statement twice, it does
/// not count the money twice. If an answer is lost, the totals in the next statement correct the data in Redis.
struct budget_statement {
  /// One window of a budget.
  struct window {
    std::string key;         ///< names the budget and the window; equal in all instances
    std::string member;      ///< names this instance
    std::string record;      ///< the name of the window's data in Redis, as in the last answer; empty: no answer yet
    micro_usd settled = 0;   ///< money that calls of this instance have spent in the window
    micro_usd reported = 0;  ///< the part of `settled` that Redis has confirmed
    micro_usd spent = 0;  ///< the sum of all instances in the last answer; Redis restores this sum if it loses its data
    micro_usd reserved = 0;            ///< money that running calls of this instance have reserved
    std::chrono::milliseconds kept{};  ///< how long Redis keeps the window's data after this statement
  };
  /// A request to reserve `amount` for one call: in the windows of all `parts`, or in none of them.
  struct ask {
    struct part {
      std::size_t window;             ///< an index into `windows`
      std::optional<micro_usd> most;  ///< the amount of the budget; nothing: the budget does not refuse calls
    };
    micro_usd amount = 0;
    std::vector<part> parts;
  };

  std::uint64_t number = 0;  ///< grows with each statement of the instance; Redis ignores an older statement
  std::vector<window> windows;
  std::vector<ask> asks;
};

struct budget_answer {
  struct sums {
    std::string record;      ///< the name of the window's data; a new name shows that Redis has lost the data
    micro_usd spent = 0;     ///< money that calls of all instances have spent in the window
    micro_usd reserved = 0;  ///< money that running calls of all instances have reserved, this answer's grants included
  };
  std::vector<sums> windows;  ///< one element for each window of the statement
  /// For each `ask` of the statement: nothing if its money is reserved; otherwise the index of the part whose budget
  /// has too little money left.
  std::vector<std::optional<std::size_t>> denied;
};

/// The script for EVAL. It takes the keys and the arguments of a statement, and returns a list of texts. For each
/// window it returns the name of its data, the spent sum and the reserved sum. For each ask it then returns 0 if the
/// money is reserved. Otherwise it returns the number, counted from 1, of the part whose budget has too little money
/// left.
///
/// A window has two keys: a hash and a sorted set. The hash has the sums, and for each instance the number of its last
/// statement and its own sums. The sorted set has the instances whose reservations count, ordered by the time of their
/// last statement.
///
/// If an instance sends no statement for `lease`, its reservations end. That time is measured by a clock in the hash,
/// which advances by at most `longest_step` from one statement to the next. So neither an outage of Redis nor a step of
/// the Redis server's clock ends a reservation of a running instance.
std::string_view budget_script() noexcept;

inline constexpr std::chrono::milliseconds budget_lease = std::chrono::minutes{2};
inline constexpr std::chrono::milliseconds longest_budget_step = std::chrono::seconds{20};

std::vector<std::string> keys_of(const budget_statement& s);
std::vector<std::string> arguments_of(const budget_statement& s);
/// Reads the texts that the script has returned. Returns nothing if the texts are not an answer to `s`.
std::optional<budget_answer> read_answer(const budget_statement& s, const std::vector<std::string>& texts);

}  // namespace canigo::gateway
