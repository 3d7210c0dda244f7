#pragma once

#include "canigo/limiter.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace canigo::gateway {

/// A line is the queue of the calls that wait for money of one budget. It is ordered by class and arrival.
///
/// Only the first call of the line may try to reserve its money. If the budget has too little money left, this call
/// runs rest(), gives back its permit of turns(), and waits again at its old position. So a call of the same class that
/// needs less money can't overtake the first call. But a call of a more important class can overtake the first call.
///
/// Threads: any.
class budget_line : public std::enable_shared_from_this<budget_line> {
 public:
  /// The timer of the line runs on the loop of `executor`. `priorities`, `ageing`: see limiter_options.
  budget_line(const net::any_io_executor& executor, int priorities, duration ageing);

  /// Returns the limiter of the line, which has one permit. Only the call that holds this permit may try to reserve
  /// money.
  limiter& turns() noexcept { return turns_; }
  /// Returns the number of calls in the line (the queue).
  std::size_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }

  /// From now on no call tries to reserve money, until look_again() is called. A timer calls look_again() when the
  /// budget's window ends, and at the latest after a second. The timer waits for at most a second, because the system's
  /// clock may be changed, and another process may use the budget.
  void rest(std::chrono::sys_seconds window_end);
  /// Lets the first call of the line (the queue) try again to reserve its money. Call it when the budget may have
  /// enough money again.
  void look_again();
  /// True from a call of rest() until the next call of look_again(): no call may try to reserve money.
  bool rests() const noexcept { return rests_.load(std::memory_order_relaxed); }

  /// Counts one call as waiting: while this object exists, waiting() includes the call.
  class place {
   public:
    explicit place(budget_line& l) noexcept : of_{l} { of_.waiting_.fetch_add(1, std::memory_order_relaxed); }
    ~place() { of_.waiting_.fetch_sub(1, std::memory_order_relaxed); }
    place(const place&) = delete;
    place& operator=(const place&) = delete;

   private:
    budget_line& of_;
  };

 private:
  void arm(duration wait);

  const net::any_io_executor executor_;
  limiter turns_;
  std::atomic<std::size_t> waiting_{0};
  std::atomic<bool> rests_{false};
  net::steady_timer timer_;
};

/// The lines (queues of calls) of all budgets. Threads: any.
class budget_lines {
 public:
  budget_lines(const net::any_io_executor& executor, int priorities, duration ageing)
      : executor_{executor}, priorities_{priorities}, ageing_{ageing} {}

  /// Returns the line (the queue of calls) of the budget with this name. Creates the line if it does not exist.
  std::shared_ptr<budget_line> of(const std::string& budget);
  /// Returns the line (the queue of calls) of the budget with this name; null if no call has ever waited for that
  /// budget.
  std::shared_ptr<budget_line> find(const std::string& budget) const;
  /// Lets the first call that waits for money of this budget try again to reserve it. Call it when the budget has got
  /// money back.
  void look_again(const std::string& budget) noexcept;
  /// For each budget, lets the first call that waits for its money try again to reserve it. Call it when a reload of
  /// the configuration may have changed the budgets.
  void look_again();

 private:
  const net::any_io_executor executor_;
  const int priorities_;
  const duration ageing_;
  std::atomic<bool> has_lines_{false};
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<budget_line>, std::less<>> lines_;
};

}  // namespace canigo::gateway
