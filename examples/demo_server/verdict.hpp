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
  bool refused = false;  ///< answered 429
};

/// Judges from the outside whether a quota was kept: from nothing but when requests came in.
class judge {
 public:
  judge(canigo::rate quota, std::uint64_t burst, canigo::duration tolerance);

  void note(const arrival& a) { arrivals_.push_back(a); }

  /// Requests in the window of one period that holds the most of them.
  std::size_t most_in_a_period() const;
  /// Whether every window, of any length, holds at most the burst and what the rate brings in it. Windows count as
  /// `tolerance` longer than they are: the way through two event loops does not take the same time for every request.
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
  std::vector<arrival> arrivals_;  // in the order in which they came
};

}  // namespace demo
