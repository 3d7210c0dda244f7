#pragma once

#include <canigo/time.hpp>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace fetch {

/// The progress of the calls.
struct progress {
  std::size_t done = 0;  ///< the number of ended calls
  std::size_t failed = 0;
  std::size_t running = 0;
  std::vector<std::size_t> waiting;   ///< the number of waiting calls of each class
  std::optional<std::size_t> unread;  ///< the estimated number of calls in the unread input; unset: unknown
  double per_second = 0;              ///< the recent number of calls that end per second
};

/// Formats the progress as one line of at most `columns` ASCII characters. The most important parts come first, and
/// parts that do not fit are left out.
std::string to_line(const progress& p, std::size_t columns);

/// Computes the number of calls that end per second, over the last ten seconds. If fewer than ten changes fall into
/// these seconds, the span goes back to the tenth last change.
class recent_rate {
 public:
  explicit recent_rate(canigo::time_point begin) : looks_{{begin, 0}} {}

  double per_second(std::size_t done, canigo::time_point now);

 private:
  struct look {
    canigo::time_point at;
    std::size_t done;
  };
  std::deque<look> looks_;  // one for each time at which the number had grown
};

/// A line on standard error that is overwritten repeatedly, and removed at the end.
class status_line {
 public:
  /// `is_wanted`: unset means that the line is shown only on a terminal that supports it.
  explicit status_line(std::optional<bool> is_wanted);
  ~status_line() { clear(); }
  status_line(const status_line&) = delete;
  status_line& operator=(const status_line&) = delete;

  bool is_on() const noexcept { return is_on_; }
  void show(const progress& p);
  /// Removes the line. Call it before anything else is written to the terminal.
  void clear();

 private:
  bool is_on_;
  bool is_there_ = false;
};

}  // namespace fetch
