#pragma once

#include "canigo/limit_options.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <vector>

namespace canigo::detail {

/// The rule for shedding: when a group of waiters is overloaded, and which of its waiters have waited too long. See
/// shedding_options.
///
/// A grant meets the target if the oldest waiter of the group has waited for less than `target`. `met_at` is the time
/// of the last such grant, or of the last arrival in the empty group, whichever is later.
class delay_rule {
 public:
  explicit delay_rule(const shedding_options& o) noexcept : options_{o} {}

  bool sheds() const noexcept { return options_.target != duration::max(); }
  bool takes_newest_at_times() const noexcept { return options_.newest_first; }
  /// Whether a grant at `now` meets the target. `oldest` is the arrival time of the group's oldest waiter, which may be
  /// the granted waiter.
  bool is_met(time_point oldest, time_point now) const noexcept {
    return now < saturating_add(oldest, options_.target);
  }
  /// The instant from which the group is overloaded, if no earlier grant meets the target.
  time_point overloaded_at(time_point met_at) const noexcept { return saturating_add(met_at, options_.interval); }
  /// The instant at which a waiter that arrived at `since` must be shed, if no earlier grant meets the target.
  time_point shed_at(time_point met_at, time_point since) const noexcept;

 private:
  shedding_options options_;
};

/// Tracks which classes of a queue are overloaded, and which waits in them are too long.
///
/// The time is always an argument: this class reads no clock. Threads: not thread-safe; its owner must hold a lock.
/// Allocates: in the constructor.
class delay_watch {
 public:
  delay_watch(const shedding_options& o, int priorities)
      : rule_{o}, met_at_(static_cast<std::size_t>(priorities), time_point::min()) {}

  /// Call it when a waiter arrives in a class without waiters.
  void first_comes(int priority, time_point now) noexcept { met_at_[static_cast<std::size_t>(priority)] = now; }
  /// Call it when a waiter of a class is granted. `oldest` is the arrival time of the class's oldest waiter, which may
  /// be the granted waiter.
  void one_goes(int priority, time_point oldest, time_point now) noexcept {
    if (rule_.is_met(oldest, now)) first_comes(priority, now);
  }

  /// Whether during a whole interval each granted request of a class has waited at least the target. Precondition: the
  /// class has waiters.
  bool is_overloaded(int priority, time_point now) const noexcept { return now >= overloaded_at(priority); }
  time_point overloaded_at(int priority) const noexcept { return rule_.overloaded_at(met_at(priority)); }
  /// The instant at which a waiter of the class `priority` that arrived at `since` must be shed, if no earlier grant of
  /// the class meets the target.
  time_point shed_at(int priority, time_point since) const noexcept { return rule_.shed_at(met_at(priority), since); }
  bool takes_newest(int priority, time_point now) const noexcept {
    return takes_newest_at_times() && is_overloaded(priority, now);
  }
  bool takes_newest_at_times() const noexcept { return rule_.takes_newest_at_times(); }

  const delay_rule& rule() const noexcept { return rule_; }
  time_point met_at(int priority) const noexcept { return met_at_[static_cast<std::size_t>(priority)]; }

 private:
  delay_rule rule_;
  std::vector<time_point> met_at_;  // for each class: the time `met_at` that delay_rule describes
};

}  // namespace canigo::detail
