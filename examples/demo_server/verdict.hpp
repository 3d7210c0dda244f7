#pragma once

#include <canigo/rate.hpp>
#include <canigo/time.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace demo {

struct arrival {
  canigo::time_point at;
  int priority = 0;
  bool refused = false;  ///< whether the request was answered with 429
};

/// Judges from outside whether a quota was kept, using only the arrival times of requests.
class judge {
 public:
  judge(canigo::rate quota, std::uint64_t burst, canigo::duration tolerance);

  void note(const arrival& a) { arrivals_.push_back(a); }

  /// The number of requests in the busiest window of one period.
  std::size_t most_in_a_period() const;
  /// Whether every window, of any length, has at most the burst plus the tokens of the rate in that window. Each window
  /// counts as `tolerance` longer than it is, because requests take different times through two event loops.
  bool is_kept() const;
  std::string text() const;
  std::string json() const;

 private:
  std::uint64_t allowed_in(canigo::duration window) const;
  std::size_t refused() const;
  std::string order() const;

  canigo::rate quota_;
  std::uint64_t burst_;
  canigo::duration tolerance_;
  std::vector<arrival> arrivals_;  // the arrivals in the order of their times
};

}  // namespace demo
