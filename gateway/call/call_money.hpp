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

/// The cost of a call. It is reserved before each attempt in the budgets of its upstream and its tenant, and settled
/// after it. Destroyed in between, the object gives the money back.
class call_money {
 public:
  /// `prices` must outlive it.
  call_money(std::shared_ptr<budget_ledger> ledger, const price_list& prices)
      : ledger_{std::move(ledger)}, prices_{&prices} {}

  /// Reserves what the call may cost, unless that is reserved. Returns why the call may not go. `learned`: how many
  /// times their estimate calls for the model use. `now`: has the terms for calls without a price.
  std::optional<refusal> reserve(const config& now, const upstream& u, const tenant& whose, const token_estimate& e,
                                 double learned);
  /// An attempt has ended, which the upstream had. `used`: nothing if that is unknown: then the call costs what was
  /// expected. `is_refused`: by the upstream, which takes no money then, unless it tells a usage.
  void settle(const std::optional<token_usage>& used, bool is_refused, call_record& r);

 private:
  std::shared_ptr<budget_ledger> ledger_;  // before the hold, which needs it
  const price_list* prices_;
  const price* price_ = nullptr;
  budget_ledger::hold hold_;
};

/// Whether an answer with this status costs nothing: providers charge for no call that they refuse, or have no capacity
/// for.
constexpr bool is_free_of_charge(int status) noexcept {
  return (status >= 400 && status < 500) || status == 503 || status == 529;
}

}  // namespace canigo::gateway
