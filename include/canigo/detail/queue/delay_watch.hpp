#pragma once

#include "canigo/limit_options.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <vector>

namespace canigo::detail {

/// When waiters that wait together are overloaded, and when a wait is too long there. See shedding_options. `met_at`:
/// when one of them has met the target last, or when the first of them came.
class delay_rule {
 public:
  explicit delay_rule(const shedding_options& o) noexcept : options_{o} {}

  bool sheds() const noexcept { return options_.target != duration::max(); }
  bool takes_newest_at_times() const noexcept { return options_.newest_first; }
  /// Whether a waiter that goes at `now` meets the target. `oldest`: the arrival of the oldest waiter, perhaps that
  /// one.
  bool is_met(time_point oldest, time_point now) const noexcept {
    return now < saturating_add(oldest, options_.target);
  }
  /// The time from which the waiters count as overloaded, unless one meets the target before.
  time_point overloaded_at(time_point met_at) const noexcept { return saturating_add(met_at, options_.interval); }
  /// When a waiter that arrived at `since` is to be shed, unless one meets the target before.
  time_point shed_at(time_point met_at, time_point since) const noexcept;

 private:
  shedding_options options_;
};

/// Which classes of a queue are overloaded, and which waits are too long there.
///
/// `now` is always an argument. Threads: none; its owner holds a lock. Allocates: in the constructor.
class delay_watch {
 public:
  delay_watch(const shedding_options& o, int priorities)
      : rule_{o}, met_at_(static_cast<std::size_t>(priorities), time_point::min()) {}

  /// Call it when a waiter comes to a class without waiters.
  void first_comes(int priority, time_point now) noexcept { met_at_[static_cast<std::size_t>(priority)] = now; }
  /// Call it when a waiter of a class is granted. `oldest`: the arrival of the class's oldest waiter, perhaps that one.
  void one_goes(int priority, time_point oldest, time_point now) noexcept {
    if (rule_.is_met(oldest, now)) first_comes(priority, now);
  }

  /// Whether for a whole interval no request of a class has waited less than the target. For a class with waiters.
  bool is_overloaded(int priority, time_point now) const noexcept { return now >= overloaded_at(priority); }
  time_point overloaded_at(int priority) const noexcept { return rule_.overloaded_at(met_at(priority)); }
  /// When a waiter of a class that arrived at `since` is to be shed, unless one of that class waits less than the
  /// target before.
  time_point shed_at(int priority, time_point since) const noexcept { return rule_.shed_at(met_at(priority), since); }
  bool takes_newest(int priority, time_point now) const noexcept {
    return takes_newest_at_times() && is_overloaded(priority, now);
  }
  bool takes_newest_at_times() const noexcept { return rule_.takes_newest_at_times(); }

  const delay_rule& rule() const noexcept { return rule_; }
  time_point met_at(int priority) const noexcept { return met_at_[static_cast<std::size_t>(priority)]; }

 private:
  delay_rule rule_;
  std::vector<time_point> met_at_;  // the time of each class; see delay_rule
};

}  // namespace canigo::detail
