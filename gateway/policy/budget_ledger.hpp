#pragma once

#include "gateway/config/budget.hpp"
#include "gateway/policy/spent_store.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace canigo::gateway {

/// The sums of all budgets: for each window, the money that calls have spent and the money reserved for running calls.
///
/// A call reserves its expected cost in all of its budgets or in none. At its end it settles its real cost. Concurrent
/// calls exceed a budget at most by the amount by which their reservations were too low.
///
/// The sum of a window is kept when the clock steps backwards. If the unit or the zone of a budget changes, the budget
/// begins with a new sum.
///
/// The sums are kept in the store: settle() adds to them before it returns. If the store does not take a sum, a thread
/// tries again every 100 ms; until it succeeds, settle() does not write to the store. Standard error reports when the
/// tries begin, and when one has succeeded.
///
/// Threads: any. Each function takes a lock. settle() also takes the time of spent_store::add().
class budget_ledger {
  struct sum {
    micro_usd spent = 0;
    micro_usd reserved = 0;
    micro_usd unsaved = 0;  // the part of `spent` that is not yet in the store
    bool is_known = false;  // the store has told how much was spent in this window earlier
  };
  struct account;

 public:
  using instant = std::chrono::sys_seconds;

  /// `store`: keeps the sums. If it is null, the sums are lost when the process ends.
  explicit budget_ledger(std::unique_ptr<spent_store> store);
  /// Sets a function that is called with the name of a budget, such as "upstream chat", after a call has settled its
  /// cost there. Call on_freed() before the first reserve().
  void on_freed(std::function<void(const std::string& name)> freed) { freed_ = std::move(freed); }
  ~budget_ledger();
  budget_ledger(const budget_ledger&) = delete;
  budget_ledger& operator=(const budget_ledger&) = delete;

  /// The name of a budget, and the options that it has now.
  struct budget {
    std::string_view kind;  ///< "upstream", "target" or "tenant"; must be a literal
    std::string_view name;
    const budget_options* terms;
  };
  struct look {
    calendar_window window;
    micro_usd spent = 0;
    micro_usd reserved = 0;
  };
  /// The budget that has too little left for a call, and the reason.
  struct denial {
    std::size_t which = 0;  ///< the index of the budget in the span given to reserve()
    look sums;
    bool is_spent = false;  ///< the budget would have too little left even if all running calls cost nothing
    bool is_known = true;   ///< false: the sum of the window can't be read from the store
  };

  /// The money that a call has reserved. The destructor gives all of the money back, unless settle() was called before.
  /// The ledger must outlive this object.
  class hold {
   public:
    hold() = default;
    hold(hold&& other) noexcept;
    hold& operator=(hold&& other) noexcept;
    ~hold() { settle(0); }

    micro_usd amount() const noexcept { return amount_; }
    explicit operator bool() const noexcept { return ledger_ != nullptr; }
    /// Ends the reservation, and adds `cost` to those windows that were current when the money was reserved.
    void settle(micro_usd cost) noexcept;

   private:
    friend class budget_ledger;
    struct part {
      account* of;
      instant window;
    };

    budget_ledger* ledger_ = nullptr;
    micro_usd amount_ = 0;
    std::vector<part> parts_;
  };

  /// Returns the first of these budgets that has too little left for the amount. Ignores budgets that only warn. While
  /// the store can't tell the sum of a budget, the budget counts as having nothing left. A call with an amount of 0 is
  /// always let through.
  std::optional<denial> find_denial(std::span<const budget> budgets, micro_usd amount, instant now);
  /// Reserves the amount in all of these budgets, and stores the reservation in `to`, which must be empty. If
  /// find_denial() returns a budget, returns it, too, and reserves nothing.
  std::optional<denial> reserve(std::span<const budget> budgets, micro_usd amount, instant now, hold& to);

  /// Returns the spent and reserved sums of the current window of a budget.
  look look_at(const budget& b, instant now);

  /// How many times the store could not take or tell a sum. A later call tries again.
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }

 private:
  // first: the kind and the name of a budget; second: the unit and the zone of its windows
  using key = std::tuple<std::string, std::string>;

  account& open(const budget& b, instant now);
  std::optional<denial> judge(std::span<const budget> budgets, micro_usd amount, instant now,
                              std::vector<hold::part>& parts);
  void open_window(account& a, instant begin);
  void settle(hold& h, micro_usd cost) noexcept;
  void count(const hold& h, micro_usd cost) noexcept;
  bool save();
  void fall_behind() noexcept;
  void catch_up(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any fell_behind_;
  bool is_behind_ = false;      // the store did not take a sum, so the thread tries again
  bool is_unreadable_ = false;  // the last attempt to read a sum from the store failed
  // one account for each budget that a configuration has named so far
  std::map<key, std::unique_ptr<account>> accounts_;
  std::unique_ptr<spent_store> store_;
  std::function<void(const std::string&)> freed_;
  std::atomic<std::uint64_t> failures_{0};
  std::jthread catching_up_;  // runs catch_up(); only if there is a store
};

}  // namespace canigo::gateway
