#pragma once

#include "gateway/config/budget.hpp"
#include "gateway/policy/budget_statement.hpp"
#include "gateway/policy/spent_store.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
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
/// A ledger with a store keeps the sums there: settle() adds to them before it returns. If the store can't write a sum,
/// a thread tries again every 100 ms. Until the thread succeeds, settle() does not write to the store. The ledger
/// reports on standard error when these tries begin, and when one has succeeded.
///
/// A shared ledger has the sums of all instances, which Redis keeps. The ledger itself sends nothing to Redis: its
/// owner calls next_statement(), has Redis run the statement, and passes the answer to take(). A call requests its
/// money by ask(), and Redis decides. If Redis does not answer for 2 seconds, the ledger denies the money. During the
/// next second it denies the money of further calls without a wait.
///
/// Threads: any. Each function takes a lock. With a store, settle() also takes the time of spent_store::add().
class budget_ledger {
  using clock = std::chrono::steady_clock;
  struct sum {
    micro_usd spent = 0;
    micro_usd reserved = 0;  // money that running calls of this instance have reserved
    micro_usd unsaved = 0;   // the part of `spent` that is not yet in the store, or not yet confirmed by Redis
    bool is_known = false;   // whether `spent` includes the money that the store, or Redis, has counted for this window

    // Of a shared ledger:
    micro_usd settled = 0;          // money that calls of this instance have spent since this object was created
    micro_usd others = 0;           // money that other instances have reserved, according to the last answer of Redis
    std::optional<micro_usd> told;  // money that Redis counts as reserved by this instance; nothing: unknown
    std::string member;             // this instance's name in the data of the window in Redis
    std::string record;             // the name of the window's data in Redis, as Redis has told it last; empty: unknown
    clock::time_point known_at{};   // when the last answer of Redis about this window came
    clock::time_point looked_at{};  // when look_at() was last called for this window
    bool is_due = false;            // the next statement to Redis will include this window
    bool is_stated = false;         // a statement that Redis has not answered yet includes this window
  };
  struct account;

 public:
  using instant = std::chrono::sys_seconds;

  /// `store`: keeps the sums. If it is null, the sums are lost when the process ends.
  explicit budget_ledger(std::unique_ptr<spent_store> store);
  /// The name of an instance in a shared ledger. No other process, running or ended, may have the same name.
  struct instance_name {
    std::string text;
  };
  /// Makes a shared ledger. `now` returns the current time; a test may pass its own clock.
  explicit budget_ledger(instance_name mine, clock::time_point (*now)() = &clock::now);
  /// Sets a function that is called after a call has settled its cost in a budget. The argument is the name of the
  /// budget, such as "upstream chat". Call on_freed() before the first reserve().
  void on_freed(std::function<void(const std::string& name)> freed) { freed_ = std::move(freed); }
  /// Sets a function that is called when Redis answers a statement after it has failed to answer one. It is called on
  /// the thread that calls take(). Call on_answering() before the first ask().
  void on_answering(std::function<void()> answering) { answering_ = std::move(answering); }
  ~budget_ledger();
  budget_ledger(const budget_ledger&) = delete;
  budget_ledger& operator=(const budget_ledger&) = delete;

  /// The name of a budget, and the options that it has now.
  struct budget {
    std::string_view kind;  ///< "upstream", "target" or "tenant"; must be a string literal
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

  /// The answer to ask(). `denied` is std::nullopt if the money is reserved.
  struct outcome {
    hold money;
    std::optional<denial> denied;
  };
  bool is_shared() const noexcept { return !instance_.empty(); }
  /// Whether a call must use ask() instead of reserve(), because only Redis can decide. True if the ledger is shared,
  /// the amount is not 0, and at least one of the budgets may refuse calls.
  bool must_ask(std::span<const budget> budgets, micro_usd amount) const noexcept;
  /// Reserves the amount in all of these budgets or in none, after Redis has answered. Only for a shared ledger. `done`
  /// is called exactly once, on any thread, possibly before ask() returns, unless withdraw() returns a denial. It must
  /// not call the ledger. Returns the number of the question.
  std::uint64_t ask(std::span<const budget> budgets, micro_usd amount, instant now, std::function<void(outcome)> done);
  /// Withdraws a question, because its call may wait no longer. Then `done` is destroyed, not called. If Redis grants
  /// the money later, the ledger gives it back. Returns the denial of the call, as if Redis had not answered. Returns
  /// nothing if `done` was called, or is being called, or if the question was withdrawn before.
  std::optional<denial> withdraw(std::uint64_t question);
  /// Returns the denial of a call for which Redis has not answered in time: of the first of these budgets that may
  /// refuse calls. Precondition: must_ask() has returned true for these budgets.
  denial unanswered(std::span<const budget> budgets, instant now);

  /// Whether Redis answers slowly, or not at all: it has failed to answer the last statement, or has taken longer than
  /// usual, or takes longer now.
  bool is_slow() const;

  /// Sets a function that is called when next_statement() has something to send to Redis. It is called on any thread.
  /// It must not call the ledger.
  void on_news(std::function<void()> news);
  /// Returns the next statement for Redis, or std::nullopt if nothing is due. After each statement the caller must call
  /// take() or fail() before it calls next_statement() again.
  std::optional<budget_statement> next_statement();
  /// Processes the answer of Redis to the statement `s`.
  void take(const budget_statement& s, const budget_answer& answer);
  /// Call it if Redis has not answered the last statement, or has answered with an error.
  void fail();
  /// Whether Redis still has to confirm a sum or a reservation of this instance.
  bool has_news() const;
  /// Denies the money of all calls that wait for an answer to ask(), and of all later calls of ask().
  void stop();

  /// Returns the spent and reserved sums of the current window of a budget. With a shared ledger, these are the sums of
  /// all instances in the last answer of Redis. For a minute after each call of look_at(), the ledger requests these
  /// sums from Redis every second.
  look look_at(const budget& b, instant now);

  /// The number of failed reads and writes of sums, in the store or in Redis. The ledger tries each of them again
  /// later.
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }

 private:
  // first: the kind and the name of a budget; second: the unit and the zone of its windows
  using key = std::tuple<std::string, std::string>;

  account& open(const budget& b, instant now);
  std::optional<denial> judge(std::span<const budget> budgets, micro_usd amount, instant now,
                              std::vector<hold::part>& parts);
  void open_window(account& a, instant begin);
  static void forget_idle_windows(account& a, instant but);
  void settle(hold& h, micro_usd cost) noexcept;
  void count(const hold& h, micro_usd cost) noexcept;
  bool save();
  void fall_behind() noexcept;
  void catch_up(const std::stop_token& stop);

  /// A call of ask() that Redis has not answered yet. A question without `done` was withdrawn.
  struct question {
    struct part {
      hold::part of;
      calendar_window window;
      std::optional<micro_usd> most;
    };
    micro_usd amount;
    std::vector<part> parts;
    clock::time_point since;
    std::function<void(outcome)> done;
    std::uint64_t number = 0;
  };
  static sum& sum_of(const hold::part& p);
  bool is_fresh(const sum& s) const;
  std::optional<denial> guess(const hold::part& p, micro_usd amount, micro_usd most);
  void make_due(std::span<const hold::part> all);
  void make_old_windows_due();
  std::size_t state(budget_statement& s, const hold::part& p);
  outcome grant(const question& q);
  static outcome deny(const question& q, std::optional<std::size_t> part);
  static std::function<void()> end_of(const question& q, outcome o);
  std::optional<budget_statement> make_statement(std::vector<std::function<void()>>& ends);
  std::vector<std::function<void()>> deny_all_questions();

  mutable std::mutex mutex_;
  std::condition_variable_any fell_behind_;
  bool is_behind_ = false;      // whether the store lacks a sum; if so, `catching_up_` tries to write the sum again
  bool is_unreadable_ = false;  // the last attempt to read a sum from the store failed
  // one account for each budget that a configuration has named so far
  std::map<key, std::unique_ptr<account>> accounts_;
  std::unique_ptr<spent_store> store_;
  std::function<void(const std::string&)> freed_;
  std::function<void()> answering_;
  std::atomic<std::uint64_t> failures_{0};

  // Of a shared ledger:
  const std::string instance_;
  clock::time_point (*const now_)() = &clock::now;
  std::uint64_t windows_made_ = 0;
  std::uint64_t statements_ = 0;
  std::uint64_t asked_so_far_ = 0;  // the number of the newest question
  std::function<void()> news_;
  std::deque<hold::part> due_;        // the windows that the next statement includes
  std::vector<hold::part> stated_;    // the windows of the unanswered statement, in the statement's order
  std::deque<question> questions_;    // the calls of ask() that no statement includes yet, in the order of numbers
  std::vector<question> asked_;       // the calls of ask() in the unanswered statement, in the statement's order
  clock::time_point stated_at_{};     // when next_statement() was last called
  clock::time_point searched_at_{};   // when make_old_windows_due() was last called
  clock::time_point silent_until_{};  // until this time ask() denies money immediately, because Redis did not answer
  bool has_failed_ = false;           // Redis has not answered the last statement
  bool was_slow_ = false;             // the last answer of Redis took longer than usual
  bool is_stopped_ = false;

  std::jthread catching_up_;  // runs catch_up(); only if there is a store
};

}  // namespace canigo::gateway
