#include "gateway/call/call.hpp"
#include "gateway/call/refusals.hpp"
#include "gateway/policy/target_choice.hpp"

#include <chrono>
#include <string>
#include <utility>

// Finds the targets that may serve a call.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

}  // namespace

/// Returns the targets that serve the call's model. If the call names no model, leaves out the targets whose path needs
/// the name of a model.
target_set call::serving_model() const {
  const std::string& model = account_->estimate().model;
  return model.empty() ? callable_without_model(to(), plan_.path) : serving(to(), model);
}

/// Returns a refusal if no target serves the call's model, or if the quotas that the call needs are used up at all
/// targets. Does not check budgets.
std::optional<refusal> call::refusal_by_quotas() const {
  const token_estimate& needs = account_->estimate();
  const target_set able = serving_model();
  if (!to().targets.empty() && able == 0) return refusal_of_model(needs.model);
  return refusal_by_quota(queue(), route_.tenant, needs, able);
}

/// Returns a refusal if no target can serve the call, even after a wait. Checks models, quotas and the budgets of
/// targets.
std::optional<refusal> call::refusal_by_targets() const {
  auto why = refusal_by_quotas();
  return why ? why : refusal_by_money_of_targets();
}

/// Returns the targets that serve the call's model and whose quotas for the call are not used up.
target_set call::without_spent_quotas() const {
  return queue().candidates(route_.tenant, account_->estimate().model) & serving_model();
}

/// Returns the targets that serve the call's model, and whose quotas and budgets have enough left for the call.
target_set call::candidates() { return with_money(without_spent_quotas()); }

/// Returns the targets that may serve the call and have not had an attempt of this call yet. Empty if the upstream
/// lists no targets.
target_set call::untried() { return to().targets.empty() ? 0 : candidates() & ~tried_; }

/// Whether a target that has not had an attempt of this call may serve the call before its deadline. Targets that are
/// paused because of failures or rejected keys do not count.
bool call::has_other_target() {
  const target_set of = untried();
  for (std::size_t i = 0; i < to().targets.size(); ++i) {
    if (!has(of, i)) continue;
    const target_limit& at = queue().limits().at(i);
    if (!at.is_out() && at.now().pauses.until() < deadline_) return true;
  }
  return false;
}

/// Returns the targets for which the next attempt may wait. After the first attempt, targets that were already tried
/// are included in two cases: the retry budget has paid for another attempt at them, or no other target is left.
target_set call::wanted() {
  if (tried_ != 0 && !may_return_) {
    if (const target_set others = untried()) return others;
  }
  const target_set all = candidates();
  const target_set useful = all & ~barred_;
  return useful != 0 ? useful : all;
}

/// Passes to `turn_` the targets at which the call may wait for its next attempt.
void call::choose_targets() {
  target_set of = wanted();
  // If wanted() returns no target, other calls have used the money of all candidates since refusal_by_targets() was
  // called. Then this call waits for all targets whose quotas are not used up. When a target's limit grants the call a
  // permit, reserve_at_target() checks the target's budget again.
  if (of == 0) of = without_spent_quotas();
  std::optional<std::size_t> first;
  if (tried_ == 0 && to().sticky.by != sticky_options::kind::none) {
    if (const auto key = sticky_key(to().sticky, head_, body_->ahead())) first = target_of_key(to(), of, *key);
  }
  turn_.choose(of, first);
}

void call::look_at_quotas() {
  if (!turn_.waits()) return;
  if (auto why = refusal_by_targets()) {
    turn_.dismiss(std::move(*why));
  } else if (const target_set of = to().targets.empty() ? 0 : wanted()) {
    turn_.move_to(of);
  }
}

void call::look_at_money() {
  if (std::exchange(lacks_money_of_target_, false)) look_at_quotas();
}

}  // namespace canigo::gateway
