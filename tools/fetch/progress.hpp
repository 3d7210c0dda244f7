#pragma once

#include <canigo/time.hpp>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace fetch {

/// How far the calls of a run have got.
struct progress {
  std::size_t done = 0;  ///< the number of calls that have ended
  std::size_t failed = 0;
  std::size_t running = 0;
  std::vector<std::size_t> waiting;  ///< the number of waiting calls of each class
  /// the estimated number of calls in the part of the input that is not read yet; none: unknown
  std::optional<std::size_t> unread;
  double per_second = 0;  ///< how many calls have recently ended per second
};

/// Formats the progress as one line of at most `columns` ASCII characters. Its most important parts come first; parts
/// that do not fit are left out.
std::string to_line(const progress& p, std::size_t columns);

/// Computes how many calls end per second, from the last ten seconds. If the number of ended calls changed fewer than
/// ten times in these seconds, computes it from the last ten changes.
class recent_rate {
 public:
  explicit recent_rate(canigo::time_point begin) : looks_{{begin, 0}} {}

  double per_second(std::size_t done, canigo::time_point now);

 private:
  struct look {
    canigo::time_point at;
    std::size_t done;
  };
  std::deque<look> looks_;  // one element for each time at which the number of ended calls had grown
};

/// A line on standard error that shows the progress. It is overwritten repeatedly, and removed at the end.
class status_line {
 public:
  /// `is_wanted`: whether to show the line; none: only if standard error is a terminal that supports it.
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
