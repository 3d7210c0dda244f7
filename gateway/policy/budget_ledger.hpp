#pragma once

#include "gateway/config/budget.hpp"
#include "gateway/policy/spent_store.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace canigo::gateway {

/// The sums of all budgets: the money that calls have spent in a window, and that is reserved for calls that are on.
///
/// A call reserves what it may cost, in all of its budgets or in none, and settles what it has cost. So calls that run
/// at once pass a budget by no more than their reservations were too low.
///
/// Each window keeps its sum, whatever the clock does: after a step backwards it is found again. Budgets with another
/// unit or zone are other budgets. The sums are kept in the store. A sum that it does not take now is added later.
///
/// Threads: any. A call of it takes a lock, and settle() the time of spent_store::add().
class budget_ledger {
  struct sum {
    micro_usd spent = 0;
    micro_usd reserved = 0;
    micro_usd unsaved = 0;  // the part of `spent` that the store lacks
    bool is_known = false;  // the store has told what was spent before
  };
  struct account;

 public:
  using instant = std::chrono::sys_seconds;

  /// `store`: null: nothing is kept when the process ends.
  explicit budget_ledger(std::unique_ptr<spent_store> store);
  ~budget_ledger();
  budget_ledger(const budget_ledger&) = delete;
  budget_ledger& operator=(const budget_ledger&) = delete;

  /// A budget, and its terms now.
  struct budget {
    std::string_view kind;  ///< "upstream" or "tenant"; a literal
    std::string_view name;
    const budget_options* terms;
  };
  struct look {
    calendar_window window;
    micro_usd spent = 0;
    micro_usd reserved = 0;
  };
  /// A budget has too little left for a call.
  struct denial {
    std::size_t which = 0;  ///< of the budgets that were named
    look sums;
    bool is_spent = false;  ///< without the calls that are on, it would still have too little
  };

  /// The money that a call has reserved. Destroyed before settle(), it gives all back. The ledger must outlive it.
  class hold {
   public:
    hold() = default;
    hold(hold&& other) noexcept;
    hold& operator=(hold&& other) noexcept;
    ~hold() { settle(0); }

    micro_usd amount() const noexcept { return amount_; }
    explicit operator bool() const noexcept { return ledger_ != nullptr; }
    /// The call has cost `cost`, which counts in the windows that it began in.
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

  /// Reserves the amount in all of these budgets, into `to`, which is empty. Returns the first budget that has too
  /// little left, and whose terms say to refuse: then nothing is reserved. A budget whose sum the store does not
  /// tell is spent. A call that costs nothing always goes.
  std::optional<denial> reserve(std::span<const budget> budgets, micro_usd amount, instant now, hold& to);

  /// The sums of the window that is on now.
  look look_at(const budget& b, instant now);

  /// How often the store did not take a sum, or did not tell it. The next call tries again.
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }

 private:
  using key = std::tuple<std::string, std::string>;  // the kind and the name; the calendar

  account& open(const budget& b, instant now);
  void open_window(account& a, instant begin);
  void settle(hold& h, micro_usd cost) noexcept;

  std::mutex mutex_;
  std::map<key, std::unique_ptr<account>> accounts_;  // as many as configurations have named
  std::unique_ptr<spent_store> store_;
  std::atomic<std::uint64_t> failures_{0};
};

}  // namespace canigo::gateway
