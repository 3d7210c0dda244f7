#pragma once

#include "gateway/call/call_record.hpp"
#include "gateway/config/config.hpp"
#include "gateway/policy/budget_ledger.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/usage_reader.hpp"

#include <memory>
#include <optional>

namespace canigo::gateway {

/// The cost of a call. It is reserved before each attempt in the budgets of the upstream and the tenant, and settled
/// after the attempt. The destructor gives back money that is reserved and not settled.
class call_money {
 public:
  /// `prices` must outlive this object.
  call_money(std::shared_ptr<budget_ledger> ledger, const price_list& prices)
      : ledger_{std::move(ledger)}, prices_{&prices} {}

  /// Reserves the expected cost, unless it is reserved already. Returns a refusal if a budget has too little left.
  /// `learned`: the learned ratio of used to estimated tokens for the model. `now`: tells how calls without a price are
  /// treated.
  std::optional<refusal> reserve(const config& now, const upstream& u, const tenant& whose, const token_estimate& e,
                                 double learned);
  /// Settles the cost of an attempt that reached the upstream. `used`: its usage; without one, the reserved cost is
  /// charged, or the price of `at_least` if that is more. `is_refused`: the answer is an error, which costs nothing
  /// unless it reported a usage.
  void settle(const std::optional<token_usage>& used, const token_usage& at_least, bool is_refused, call_record& r);

 private:
  std::shared_ptr<budget_ledger> ledger_;  // declared before hold_, which refers to it
  const price_list* prices_;
  const price* price_ = nullptr;
  budget_ledger::hold hold_;
};

/// Whether an answer with this status is free: providers do not charge for errors.
constexpr bool is_free_of_charge(int status) noexcept { return status >= 400; }

}  // namespace canigo::gateway
