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

/// The line of the calls that wait for money of one budget, by class and arrival.
///
/// The first of them has the turn: it looks whether the budget has enough. If not, it lets the line rest(), gives its
/// turn back and waits anew, at its old place. So no call of its class overtakes it, however little that one needs, and
/// a more important one goes before it.
///
/// Threads: any.
class budget_line : public std::enable_shared_from_this<budget_line> {
 public:
  /// The line lives on the loop of `executor`. `priorities`, `ageing`: as of limiter_options.
  budget_line(const net::any_io_executor& executor, int priorities, duration ageing);

  /// A permit of it is the turn.
  limiter& turns() noexcept { return turns_; }
  std::size_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }

  /// Lets none have the turn until look_again(). That is called when the window of the budget ends, and once a second:
  /// the system's clock may be set, and another process may share the budget.
  void rest(std::chrono::sys_seconds window_end);
  /// Lets the first one look: the budget may have money.
  void look_again();

  /// Counts a call as one that waits.
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
  net::steady_timer timer_;
};

/// The lines of all budgets. Threads: any.
class budget_lines {
 public:
  budget_lines(const net::any_io_executor& executor, int priorities, duration ageing)
      : executor_{executor}, priorities_{priorities}, ageing_{ageing} {}

  /// The line of a budget, which is made if it does not exist.
  std::shared_ptr<budget_line> of(const std::string& budget);
  /// The line of a budget; null: no call has waited for it.
  std::shared_ptr<budget_line> find(const std::string& budget) const;
  /// Money of a budget has come back.
  void look_again(const std::string& budget) noexcept;
  /// The terms of all budgets may have changed.
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
