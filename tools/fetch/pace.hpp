#pragma once

#include <canigo/time.hpp>

#include <cstddef>

namespace fetch {

/// The rate at which one server gets requests. The rate is learned from the server's responses with status 429, 503 or
/// 529.
///
/// The rate begins at the quota. If the server refuses a request, the rate falls to the rate at which the server was
/// measured to accept requests. After a time without a refusal the rate rises, slowly at first. So an overloaded server
/// refuses few requests, and a server that has recovered soon gets the full rate.
///
/// A value; the current time is an argument. Requests that were sent before the last change of the rate do not count
/// against the new rate.
class pace {
 public:
  explicit pace(double most_per_second) noexcept : most_{most_per_second}, rate_{most_per_second} {}

  bool is_slowed() const noexcept { return rate_ < most_; }
  double per_second() const noexcept { return rate_; }
  /// Returns the time between two requests at the current rate.
  canigo::duration gap() const noexcept;

  void taken(canigo::time_point sent, canigo::time_point now) noexcept;
  /// Call it when the server has refused a request. `pause`: the wait that the server asked for; zero if it named none.
  void refused(canigo::time_point sent, canigo::time_point now, canigo::duration pause) noexcept;

 private:
  void set(double rate, canigo::time_point now, canigo::duration pause) noexcept;
  void rise(canigo::time_point now) noexcept;
  void judge_sample(canigo::time_point now) noexcept;
  double guess(double seconds) noexcept;

  double most_;
  double rate_;

  // When the current run began. A run begins when the rate changes, or at the end of the pause that came with the
  // change. It ends with the next refusal.
  canigo::time_point since_ = canigo::time_point::min();
  canigo::time_point first_sent_ = canigo::time_point::max();
  canigo::time_point rises_from_ = canigo::time_point::min();
  canigo::time_point rose_ = canigo::time_point::min();
  double rising_ = 0;  // for how many seconds the rate has been rising
  std::size_t taken_ = 0;

  // True while the accepted requests are counted, in order to measure the rate. This is done if the server refuses
  // without a pause, because further requests then do no harm.
  bool samples_ = false;
  canigo::time_point sample_began_;

  // The last run that ended in a pause: its length, and the number of requests that were accepted in it.
  double before_seconds_ = 0;
  double before_taken_ = 0;
};

}  // namespace fetch
