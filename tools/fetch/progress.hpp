#pragma once

#include <canigo/time.hpp>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace fetch {

/// How far the calls are.
struct progress {
  std::size_t done = 0;  ///< have ended
  std::size_t failed = 0;
  std::size_t running = 0;
  std::vector<std::size_t> waiting;   ///< of each class
  std::optional<std::size_t> unread;  ///< calls in the rest of the input, an estimate; unset: unknown
  double per_second = 0;              ///< calls that end, lately
};

/// In one line of at most `columns` ASCII characters: the important first, and nothing that does not fit as a whole.
std::string to_line(const progress& p, std::size_t columns);

/// How many calls have ended per second, lately: in ten seconds, or for ten of the times at which it looked.
class recent_rate {
 public:
  explicit recent_rate(canigo::time_point begin) : looks_{{begin, 0}} {}

  double per_second(std::size_t done, canigo::time_point now);

 private:
  struct look {
    canigo::time_point at;
    std::size_t done;
  };
  std::deque<look> looks_;  // those that found more than the one before
};

/// A line on the standard error that is written over again and again, and is gone in the end.
class status_line {
 public:
  /// Unset: only on a terminal that understands it.
  explicit status_line(std::optional<bool> is_wanted);
  ~status_line() { clear(); }
  status_line(const status_line&) = delete;
  status_line& operator=(const status_line&) = delete;

  bool is_on() const noexcept { return is_on_; }
  void show(const progress& p);
  /// Before anything else is written to a terminal.
  void clear();

 private:
  bool is_on_;
  bool is_there_ = false;
};

}  // namespace fetch
