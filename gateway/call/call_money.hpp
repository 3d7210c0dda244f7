#pragma once

#include "canigo/net.hpp"

#include "gateway/call/call_record.hpp"
#include "gateway/config/config.hpp"
#include "gateway/policy/budget_ledger.hpp"
#include "gateway/policy/call_cost.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/usage_reader.hpp"

#include <asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace canigo::gateway {

/// Returns the budgets that the page, the state and the metrics show: those of all upstreams and targets, and those of
/// the first 256 tenants that have one.
std::vector<budget_ledger::budget> shown_budgets(const config& c);

/// The cost of a call. Before each attempt, the expected cost is reserved in the budgets of the upstream and the
/// tenant. When a place is granted, it is also reserved in the budget of the target. After the attempt, the actual cost
/// is charged. The destructor gives back money that is still reserved.
class call_money {
 public:
  /// `prices` must outlive this object.
  call_money(std::shared_ptr<budget_ledger> ledger, const price_list& prices)
      : ledger_{std::move(ledger)}, prices_{&prices} {}

  /// The reason why a budget has no money for the call.
  struct lack {
    refusal why;
    /// the budget, such as "tenant a", for whose money the call may wait; empty: the call may not wait
    std::string line = {};
    std::chrono::sys_seconds until = {};  ///< when the window of the budget that lacks the money ends
    /// the budget would have too little left even if all running calls cost nothing: only its next window helps
    bool is_spent = false;
  };

  /// Sets the expected cost of an attempt. `learned`: the ratio of used tokens to estimated tokens, learned for the
  /// model.
  void expect(const token_estimate& e, double learned);
  micro_usd expected() const noexcept { return expected_; }
  bool is_reserved() const noexcept { return static_cast<bool>(hold_); }
  /// Reserves the expected cost, unless it is reserved already. Returns the reason if a budget has too little left.
  /// `now`: the configuration whose settings say whether calls without a price are refused.
  /// Call it only if must_ask() returns false.
  std::optional<lack> reserve(const config& now, const upstream& u, const tenant& whose, const token_estimate& e);
  /// Whether instances share the budgets of the upstream and the tenant, so that only Redis can reserve the money.
  bool must_ask(const upstream& u, const tenant& whose) const;
  /// Reserves the expected cost after Redis has answered. Returns the reason if a budget has too little left, or if
  /// Redis has not answered within 2 seconds. The arguments must be valid until then.
  net::awaitable<std::optional<lack>> ask(const upstream& u, const tenant& whose);
  /// Returns the names of the budgets for which calls may wait: the upstream's budget, then the tenant's budget.
  std::vector<std::string> lines(const upstream& u, const tenant& whose) const;
  /// Returns the reason if the budget of the upstream or of the tenant has too little left. Reserves nothing.
  std::optional<lack> find_lack(const upstream& u, const tenant& whose) const;
  /// Reserves the expected cost in the budget of the target as well. Returns false if that budget has too little left.
  /// With shared budgets, asks Redis; `t` must be valid until it has answered.
  net::awaitable<bool> reserve_at(const target& t);
  /// Gives back what reserve_at() has reserved. Call it if the attempt was not sent to the target.
  void give_back_at_target() noexcept { at_target_.settle(0); }
  /// Returns the reason if the target's budget has too little left.
  std::optional<lack> find_lack(const target& t) const;
  /// Charges the cost of an attempt that reached the upstream. `used`: the usage that the response reported. Without a
  /// usage, charges the expected cost, or the price of `at_least` if that price is higher. `is_refused`: the response
  /// is an error; without a usage it costs nothing.
  void settle(const std::optional<token_usage>& used, const token_usage& at_least, bool is_refused, call_record& r);

 private:
  std::optional<lack> lack_of_price(const config& now, const upstream& u, const tenant& whose,
                                    const token_estimate& e) const;

  std::shared_ptr<budget_ledger> ledger_;  // declared before the holds (the reservations), which refer to it
  const price_list* prices_;
  const price* price_ = nullptr;
  micro_usd expected_ = 0;
  bool is_free_ = false;
  budget_ledger::hold hold_;
  budget_ledger::hold at_target_;
};

}  // namespace canigo::gateway
