#pragma once

#include "canigo/redis/command.hpp"
#include "canigo/redis/reply.hpp"
#include "canigo/time.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::redis::detail {

/// The settings that all processes agree on; the newest version counts.
struct limit_settings {
  std::uint64_t version = 0;
  std::uint64_t permits = 0;  // 0: no cap
  std::uint64_t tokens = 0;   // 0: no rate
  std::uint64_t period = 0;   // us
  std::uint64_t burst = 1;
  std::int64_t pause = 0;  // us that are left; below 0: until further notice
};

/// The settings that a call changes for all processes.
struct setting {
  enum : unsigned { permits = 1, rate = 2, burst = 4, pause = 8 };
};

/// The message of a session to the script, in one call.
struct sync_call {
  struct wish {
    std::uint64_t id;
    int priority;  // below 0: now or not at all
    std::uint64_t weight;
  };

  std::string_view prefix;
  std::string_view session;
  std::uint64_t sequence = 0;
  duration lease{};
  bool quarantine = true;
  bool leave = false;
  std::uint64_t held = 0;
  std::uint64_t idle = 0;
  std::int64_t charged_before = 0;
  std::int64_t charged = 0;
  std::uint64_t ahead = 0;
  limit_settings settings;
  unsigned changes = 0;     // of setting
  std::uint64_t seen = 0;   // the greatest token that is known here
  std::int64_t latest = 0;  // us: the latest time that it can be where the script runs; 0: not known
  std::int64_t epoch = 0;   // of the answer that says so
  const std::vector<std::uint64_t>* acknowledged = nullptr;
  const std::vector<std::pair<std::uint64_t, std::uint64_t>>* cancels = nullptr;  // waiter and weight
  std::vector<wish> wanted;

  command encoded(bool with_text) const;
};

/// The answer of the script.
struct sync_answer {
  enum class status { ok, no_session, other_form, other };
  /// Waiters whose numbers follow each other.
  struct run {
    std::uint64_t first;
    std::uint64_t count;
    std::int64_t token;   // of the first, and the others' follow; 0: they weigh too much; -1: not now
    bool is_news = true;  // not told of before, by push or by an answer
  };

  explicit sync_answer(const reply& r);

  status what = status::other;
  std::optional<duration> next;  // until the next useful call
  std::uint64_t queue = 0;
  std::uint64_t held_by_all = 0;
  duration quarantine{};
  std::int64_t epoch = 0;
  duration empty{};  // until the bucket is empty no more; below 0: since when
  std::uint64_t ahead = 0;
  std::optional<limit_settings> settings;
  std::vector<run> grants;
  std::int64_t now = 0;  // us: the time there
  int form = 0;          // of the limit, if it is another one than ours
};

/// Numbers as the script reads them: doubles, the least byte first.
std::string packed(std::span<const double> numbers);

/// A whole number as text; 0 for anything else.
std::uint64_t number(std::string_view text) noexcept;

}  // namespace canigo::redis::detail
