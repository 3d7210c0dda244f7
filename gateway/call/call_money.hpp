#pragma once

#include "gateway/call/call_record.hpp"
#include "gateway/config/config.hpp"
#include "gateway/policy/budget_ledger.hpp"
#include "gateway/policy/call_cost.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/usage_reader.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace canigo::gateway {

/// The cost of a call. The expected cost is reserved before each attempt in the budgets of the upstream and the tenant,
/// and at the grant in the budget of the target. The cost is settled after the attempt. The destructor gives back
/// reserved money.
class call_money {
 public:
  /// `prices` must outlive this object.
  call_money(std::shared_ptr<budget_ledger> ledger, const price_list& prices)
      : ledger_{std::move(ledger)}, prices_{&prices} {}

  /// The reason for which a budget has no money for the call.
  struct lack {
    refusal why;
    std::string line = {};  ///< the budget, such as "tenant a", in whose line the call may wait; empty: no wait
    std::chrono::sys_seconds until = {};  ///< when the window of the budget that lacks the money ends
    bool is_spent = false;  ///< too little is left even if all running calls cost nothing: only a new window helps
  };

  /// Sets the expected cost of an attempt. `learned`: the learned ratio of used to estimated tokens for the model.
  void expect(const token_estimate& e, double learned);
  micro_usd expected() const noexcept { return expected_; }
  bool is_reserved() const noexcept { return static_cast<bool>(hold_); }
  /// Reserves the expected cost, unless it is reserved already. Returns the reason if a budget has too little left.
  /// `now`: the configuration that says whether calls without a price are refused.
  std::optional<lack> reserve(const config& now, const upstream& u, const tenant& whose, const token_estimate& e);
  /// Returns the budgets in whose lines calls may wait: the upstream's budget, then the tenant's budget.
  std::vector<std::string> lines(const upstream& u, const tenant& whose) const;
  /// Returns the result of reserve(), and reserves nothing.
  std::optional<lack> find_lack(const upstream& u, const tenant& whose) const;
  /// Reserves the expected cost in the budget of a target, too. Returns false if that budget has too little left.
  bool reserve_at(const target& t);
  /// Gives back the reservation in the target's budget. Call it if the attempt was not sent to that target.
  void give_back_at_target() noexcept { at_target_.settle(0); }
  /// Returns the reason if the target's budget has too little left.
  std::optional<lack> find_lack(const target& t) const;
  /// Settles the cost of an attempt that reached the upstream. `used`: the usage that the answer reported. Without a
  /// usage, the expected cost is charged, or the price of `at_least` if that is more. `is_refused`: the answer is an
  /// error, which costs nothing if it has no usage.
  void settle(const std::optional<token_usage>& used, const token_usage& at_least, bool is_refused, call_record& r);

 private:
  std::shared_ptr<budget_ledger> ledger_;  // declared before the holds, which refer to it
  const price_list* prices_;
  const price* price_ = nullptr;
  micro_usd expected_ = 0;
  bool is_free_ = false;
  budget_ledger::hold hold_;
  budget_ledger::hold at_target_;
};

}  // namespace canigo::gateway
