#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/call/call_record.hpp"
#include "gateway/config/config.hpp"
#include "gateway/policy/budget_ledger.hpp"
#include "gateway/policy/call_cost.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/usage_reader.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace canigo::gateway {

/// Returns the budgets that the operators' page, the admin state and the metrics show. These are the budgets of all
/// upstreams and targets, and those of the first 256 tenants that have a budget.
std::vector<budget_ledger::budget> shown_budgets(const config& c);

/// The cost of a call. Before each attempt, the expected cost is reserved in the budgets of the upstream and the
/// tenant. When the call gets a place at a target, the expected cost is also reserved in the target's budget. After the
/// attempt, the actual cost is charged. The destructor gives back money that is still reserved.
class call_money {
 public:
  /// `prices` must outlive this object.
  call_money(std::shared_ptr<budget_ledger> ledger, const price_list& prices)
      : ledger_{std::move(ledger)}, prices_{&prices} {}

  /// The reason why the call can't reserve its expected cost. For example, a budget has too little money left.
  struct lack {
    refusal why;
    /// the name of the budget at which the call may wait for money, such as "tenant a"; empty: the call may not wait
    std::string line = {};
    std::chrono::sys_seconds until = {};  ///< when the window of the budget that lacks the money ends
    /// true: even if all running calls cost nothing, the budget has too little left until its next window begins
    bool is_spent = false;
  };

  /// Sets the expected cost of an attempt. `learned`: the ratio of used tokens to estimated tokens, learned for the
  /// model.
  void expect(const token_estimate& e, double learned);
  micro_usd expected() const noexcept { return expected_; }
  bool is_reserved() const noexcept { return static_cast<bool>(hold_); }
  /// Reserves the expected cost, unless it is reserved already. Returns the `lack` if a budget has too little left, or
  /// if the call is refused because its model has no price. Otherwise returns nothing. `now`: the configuration whose
  /// settings say whether calls without a price are refused. Call it only if must_ask() returns false.
  std::optional<lack> reserve(const config& now, const upstream& u, const tenant& whose, const token_estimate& e);
  /// Whether the expected cost must be reserved by ask() instead of reserve(). True if instances share the budgets,
  /// nothing is reserved yet, the cost is known and not 0, and a budget may refuse calls.
  bool must_ask(const upstream& u, const tenant& whose) const;
  /// Asks Redis to reserve the expected cost. Returns the `lack` if a budget has too little left, or if Redis has not
  /// answered within 2 seconds. Otherwise returns nothing. The question ends earlier at `until`, but not before 0.5
  /// seconds have passed since the call's first question, and not before it has taken 0.1 seconds itself. A
  /// cancellation by `stop` ends the question immediately; then was_cut() is true. The first two arguments must be
  /// valid until ask() has ended.
  net::awaitable<std::optional<lack>> ask(const upstream& u, const tenant& whose, time_point until,
                                          net::cancellation_slot stop);
  /// Whether a cancellation has ended the last question of ask() or reserve_at().
  bool was_cut() const noexcept { return was_cut_; }
  /// Returns the names of the budgets at which this call may wait for money. These are budgets of the upstream `u` and
  /// the tenant `whose`; the upstream's budget comes first.
  std::vector<std::string> lines(const upstream& u, const tenant& whose) const;
  /// Returns the `lack` if the budget of the upstream or of the tenant has too little left, otherwise nothing. Reserves
  /// no money.
  std::optional<lack> find_lack(const upstream& u, const tenant& whose) const;
  /// Reserves the expected cost in the budget of the target as well. Returns false if that budget has too little left.
  /// If instances share the budgets, asks Redis like ask(); `t` must be valid until reserve_at() has ended.
  net::awaitable<bool> reserve_at(const target& t, time_point until, net::cancellation_slot stop);
  /// Gives back the money that reserve_at() has reserved. Call it if the attempt was not sent to the target.
  void give_back_at_target() noexcept { at_target_.settle(0); }
  /// Returns the `lack` if the target's budget has too little left. Also returns one if only Redis can tell, and
  /// reserve_at() got no answer from Redis by `until`, for this or another target. Otherwise returns nothing.
  std::optional<lack> find_lack(const target& t) const;
  /// Charges the cost of an attempt that reached the upstream. `used`: the usage that the response reported. Without a
  /// usage, charges the expected cost, or the price of `at_least` if that price is higher. `is_refused`: the response
  /// is an error. An error response without a usage costs nothing.
  void settle(const std::optional<token_usage>& used, const token_usage& at_least, bool is_refused, call_record& r);

 private:
  net::awaitable<budget_ledger::outcome> outcome_of(std::span<const budget_ledger::budget> budgets, time_point until,
                                                    net::cancellation_slot stop);
  std::optional<lack> lack_of_price(const config& now, const upstream& u, const tenant& whose,
                                    const token_estimate& e) const;

  std::shared_ptr<budget_ledger> ledger_;  // declared before `hold_` and `at_target_`, which refer to it
  const price_list* prices_;
  const price* price_ = nullptr;
  micro_usd expected_ = 0;
  bool is_free_ = false;
  budget_ledger::hold hold_;
  budget_ledger::hold at_target_;
  time_point first_asked_ = time_point::max();
  bool was_cut_ = false;
  bool is_too_late_to_ask_ = false;  // reserve_at() got no answer from Redis by the call's deadline
};

}  // namespace canigo::gateway
