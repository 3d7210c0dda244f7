#include "gateway/call/call_money.hpp"

#include "gateway/policy/call_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace canigo::gateway {
namespace {

refusal refusal_by_price(const token_estimate& e) {
  std::string detail = e.model.empty() ? "the call names no model, and prices has none for all models"
                                       : fmt::format("prices has none for the model \"{}\"", e.model);
  return {404, "no_price", detail + ", and a budget counts the call", {}, true};
}

refusal refusal_by_budget(const budget_ledger::budget& b, const budget_ledger::denial& denied, micro_usd amount) {
  // The wait to tell the client. Running calls may give back some of their reserved money by then.
  constexpr duration until_others_end = std::chrono::seconds{1};
  const budget_options& terms = *b.terms;
  std::string detail = fmt::format("the budget of {} \"{}\", {} USD in a {}, ", b.kind, b.name, usd_text(terms.most),
                                   name_of(terms.per));
  const std::string cost = fmt::format("less than the {} USD that the call may cost", usd_text(amount));
  if (amount > terms.most) return {402, "budget_spent", detail + "is " + cost, {}, true};
  if (!denied.is_spent) {
    detail += "has " + cost + " beside the calls that run";
    return {402, "budget_spent", std::move(detail), until_others_end};
  }
  const auto resets = denied.sums.window.end;
  detail += fmt::format("has {} left, until {}", cost, local_text(terms.zone, resets));
  return {402, "budget_spent", std::move(detail), resets - std::chrono::system_clock::now(), true};
}

}  // namespace

std::optional<refusal> call_money::reserve(const config& now, const upstream& u, const tenant& whose,
                                           const token_estimate& e, double learned) {
  if (hold_ || e.is_free) return std::nullopt;
  std::vector<budget_ledger::budget> budgets;
  if (u.budget) budgets.push_back({"upstream", u.name, &*u.budget});
  if (whose.budget) budgets.push_back({"tenant", whose.name, &*whose.budget});
  price_ = prices_->of(e.model);
  if (price_ == nullptr) {
    const bool refuses = now.refuses_unpriced && std::ranges::any_of(budgets, [](const budget_ledger::budget& b) {
                           return b.terms->at == over_budget::refuse;
                         });
    return refuses ? std::optional{refusal_by_price(e)} : std::nullopt;
  }
  const micro_usd amount = expected_cost(*price_, e, learned);
  const auto second = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto denied = ledger_->reserve(budgets, amount, second, hold_);
  if (!denied) return std::nullopt;
  return refusal_by_budget(budgets[denied->which], *denied, amount);
}

void call_money::settle(const std::optional<token_usage>& used, const token_usage& at_least, bool is_refused,
                        call_record& r) {
  if (!hold_) return;
  const bool has_used = used && *used != token_usage{};
  micro_usd cost = hold_.amount();
  if (is_refused && !has_used) {
    cost = 0;
  } else if (used) {
    cost = cost_of(*price_, *used);
  } else {
    cost = std::max(cost, cost_of(*price_, at_least));
  }
  hold_.settle(cost);
  call_texts& told = texts_of(r);
  told.usd = told.usd.value_or(0) + cost;
  told.priced_as = price_->match;
}

}  // namespace canigo::gateway
