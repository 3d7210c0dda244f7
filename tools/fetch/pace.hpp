#pragma once

#include <canigo/time.hpp>

#include <cstddef>

namespace fetch {

/// How fast one server is asked: found out from which of its answers were 429, 503 or 529.
///
/// It begins as fast as the quota allows. When the server refuses, the rate falls to the rate that the server was seen
/// to accept. After a while without a refusal it rises, slowly at first. So a server that is asked too much refuses few
/// requests, and one that has recovered is soon used in full.
///
/// A value; time is an argument. Requests that were sent before the last change do not count against the new rate.
class pace {
 public:
  explicit pace(double most_per_second) noexcept : most_{most_per_second}, rate_{most_per_second} {}

  bool is_slowed() const noexcept { return rate_ < most_; }
  double per_second() const noexcept { return rate_; }
  /// Between one request and the next.
  canigo::duration gap() const noexcept;

  void taken(canigo::time_point sent, canigo::time_point now) noexcept;
  /// `pause`: how long the server wants to be left alone; zero if it did not say.
  void refused(canigo::time_point sent, canigo::time_point now, canigo::duration pause) noexcept;

 private:
  void set(double rate, canigo::time_point now, canigo::duration pause) noexcept;
  void rise(canigo::time_point now) noexcept;
  void judge_sample(canigo::time_point now) noexcept;
  double guess(double seconds) noexcept;

  double most_;
  double rate_;

  // The run: from the last change, or the end of the pause that came with it, to the next refusal.
  canigo::time_point since_ = canigo::time_point::min();
  canigo::time_point first_sent_ = canigo::time_point::max();
  canigo::time_point rises_from_ = canigo::time_point::min();
  canigo::time_point rose_ = canigo::time_point::min();
  double rising_ = 0;  // seconds
  std::size_t taken_ = 0;

  // The server refuses without a pause, so requests do no harm. Count how many it accepts meanwhile.
  bool samples_ = false;
  canigo::time_point sample_began_;

  // The last run that was too fast from its beginning.
  double before_seconds_ = 0;
  double before_taken_ = 0;
};

}  // namespace fetch
