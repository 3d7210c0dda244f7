#pragma once

#include <canigo/time.hpp>

#include <cstddef>

namespace fetch {

/// The rate at which one server gets requests. It is learned from the answers 429, 503 and 529.
///
/// The rate begins at the quota. When the server refuses, the rate falls to the rate that the server was measured to
/// accept. After a time without a refusal the rate rises, slowly at first. So an overloaded server refuses few
/// requests, and a server that has recovered soon gets the full rate.
///
/// A value; time is an argument. Requests that were sent before the last change do not count against the new rate.
class pace {
 public:
  explicit pace(double most_per_second) noexcept : most_{most_per_second}, rate_{most_per_second} {}

  bool is_slowed() const noexcept { return rate_ < most_; }
  double per_second() const noexcept { return rate_; }
  /// Returns the time between two requests.
  canigo::duration gap() const noexcept;

  void taken(canigo::time_point sent, canigo::time_point now) noexcept;
  /// `pause`: the wait that the server asked for; zero if it named none.
  void refused(canigo::time_point sent, canigo::time_point now, canigo::duration pause) noexcept;

 private:
  void set(double rate, canigo::time_point now, canigo::duration pause) noexcept;
  void rise(canigo::time_point now) noexcept;
  void judge_sample(canigo::time_point now) noexcept;
  double guess(double seconds) noexcept;

  double most_;
  double rate_;

  // The current run begins with the last change of the rate, or with the end of its pause, and ends with the next
  // refusal.
  canigo::time_point since_ = canigo::time_point::min();
  canigo::time_point first_sent_ = canigo::time_point::max();
  canigo::time_point rises_from_ = canigo::time_point::min();
  canigo::time_point rose_ = canigo::time_point::min();
  double rising_ = 0;  // for how many seconds the rate has risen
  std::size_t taken_ = 0;

  // The server refuses without a pause, so further requests do no harm. The accepted requests of this time are counted.
  bool samples_ = false;
  canigo::time_point sample_began_;

  // The length of the last run that was too fast from its beginning, and the requests that were accepted in it.
  double before_seconds_ = 0;
  double before_taken_ = 0;
};

}  // namespace fetch
