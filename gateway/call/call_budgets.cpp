#include "canigo/error.hpp"

#include "gateway/call/call.hpp"
#include "gateway/call/refusals.hpp"
#include "gateway/policy/target_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

// Reserves the money of a call, and lets the call wait for money.
//
// In this file, a co_await expression contains no temporary that needs a destructor: g++ 12 may destroy it twice.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

/// Converts an instant of the system's clock to the clock of deadlines. If the system's clock is changed before that
/// instant, the result is wrong.
time_point steady(std::chrono::sys_seconds at) { return clock::now() + (at - std::chrono::system_clock::now()); }

/// Returns the text that logs and the operators' page show for a call that waits for money of this budget.
const char* name_of_wait(const std::string& budget) noexcept {
  return budget.starts_with("tenant") ? "budget of tenant" : "budget of upstream";
}

}  // namespace

/// The settings of an upstream and of a tenant in the newest configuration. If a reload removed the upstream or the
/// tenant, these are the settings with which the call began.
struct newest_terms {
  std::shared_ptr<upstream_queue> successor;
  const config* settings;
  const upstream* to;
  const tenant* whose;

  newest_terms(const config_snapshot& of_call, const config_snapshot& now, const upstream& u, std::size_t t)
      : settings{&now.settings}, to{&u}, whose{&of_call.settings.tenants[t]} {
    if (&now == &of_call) return;
    successor = now.queue_of(u.name);
    if (successor) to = &successor->settings();
    if (const auto i = now.tenant_of(whose->name)) whose = &now.settings.tenants[*i];
  }
};

/// Computes and stores the expected cost of an attempt.
void call::expect_cost() {
  const token_estimate& needs = account_->estimate();
  const double learned = to().tokens.learn ? queue().limits().ratios().of(needs.model) : 1;
  if (!money_) money_ = std::make_unique<call_money>(services_.budgets, settings().prices);
  money_->expect(needs, learned);
}

/// Returns a refusal if every target that may serve the call has a budget with too little left. The refusal names the
/// budget that may have enough money at the earliest time.
std::optional<refusal> call::refusal_by_money_of_targets() const {
  if (!money_ || to().targets.empty()) return std::nullopt;
  const target_set of = without_spent_quotas();
  const newest_terms now{*snapshot_, *loop_.now, to(), route_.tenant};
  std::optional<call_money::lack> first;
  for (std::size_t i = 0; i < now.to->targets.size(); ++i) {
    if (!has(of, i)) continue;
    auto lack = money_->find_lack(now.to->targets[i]);
    if (!lack) return std::nullopt;
    const bool is_sooner = !first || (first->is_spent && (!lack->is_spent || lack->until < first->until));
    if (is_sooner) first = std::move(lack);
  }
  return first ? std::optional{std::move(first->why)} : std::nullopt;
}

/// Reserves the expected cost of the next attempt in the budgets of the upstream and the tenant, by the newest
/// configuration. Returns the reason if one of the budgets has too little left.
net::awaitable<std::optional<call_money::lack>> call::reserve_money() {
  const std::shared_ptr<const config_snapshot> kept = loop_.now;  // a reload may replace loop_.now before Redis answers
  const newest_terms now{*snapshot_, *kept, to(), route_.tenant};
  if (!money_->must_ask(*now.to, *now.whose))
    co_return money_->reserve(*now.settings, *now.to, *now.whose, account_->estimate());
  const bool is_of_upstream = now.to->budget && now.to->budget->at != over_budget::warn;
  const char* const name = is_of_upstream ? "budget of upstream" : "budget of tenant";
  const time_point start = clock::now();
  std::optional<call_money::lack> lack;
  {
    const turn::outside waiting{turn_, name};
    auto asking = money_->ask(*now.to, *now.whose, end_of_questions(), waiting.stop());
    lack = co_await std::move(asking);
  }
  note_question(name, start);
  co_return lack;
}

/// Returns the time at which the call stops waiting for answers of Redis to its questions for money.
time_point call::end_of_questions() const noexcept { return std::min(deadline_, services_.end()); }

/// Adds the time since `start`, in which the call waited for an answer of Redis, to the call's wait. If that took
/// longer than a round trip usually takes, the log names this wait.
void call::note_question(const char* name, time_point start) {
  constexpr duration usual_round_trip = std::chrono::milliseconds{10};
  const duration waited = clock::now() - start;
  record_.waited += waited;
  if (waited > usual_round_trip) record_.bound_by = name;
}

/// Tries to reserve the expected cost of the next attempt without a wait. If other calls wait for the same budget, does
/// not reserve the cost, so that this call does not overtake them.
///
/// Returns true if the cost is reserved, or if the call is refused and `why_` is the refusal. Otherwise returns false:
/// then call get_money(), which may wait.
bool call::has_money_at_once() {
  const newest_terms now{*snapshot_, *loop_.now, to(), route_.tenant};
  if (!money_->is_reserved() && !line_to_join().empty()) {
    const auto lack = money_->find_lack(*now.to, *now.whose);
    if (!lack || may_wait_for(*lack)) return false;
    why_ = lack->why;
    return true;
  }
  if (money_->must_ask(*now.to, *now.whose)) {
    // Within a window, the spent sum of a budget becomes less only if Redis loses data. So if the known sum leaves too
    // little money, and the call may not wait, the call is refused without asking Redis.
    const auto lack = money_->find_lack(*now.to, *now.whose);
    if (!lack || !lack->is_spent || may_wait_for(*lack)) return false;
    why_ = lack->why;
    return true;
  }
  const auto lack = money_->reserve(*now.settings, *now.to, *now.whose, account_->estimate());
  if (lack && may_wait_for(*lack)) return false;
  if (lack) why_ = lack->why;
  return true;
}

net::awaitable<bool> call::get_money() {
  auto waiting = wait_for_money();
  return keeper_ ? keeper_->keep_during(std::move(waiting)) : std::move(waiting);
}

/// Returns the first of the call's budgets for which other calls already wait; this call must then wait behind them.
/// Returns an empty string if no call waits for any of these budgets.
std::string call::line_to_join() const {
  const newest_terms now{*snapshot_, *loop_.now, to(), route_.tenant};
  for (std::string& budget : money_->lines(*now.to, *now.whose)) {
    const auto line = services_.lines->find(budget);
    if (line && line->waiting() > 0) return std::move(budget);
  }
  return {};
}

/// Whether the call may wait for the budget that lacks money. If the budget can have enough money only in its next
/// window, that window must begin before the call's deadline.
bool call::may_wait_for(const call_money::lack& l) const {
  return !l.line.empty() && (!l.is_spent || steady(l.until) <= deadline_);
}

/// Waits in the line (the queue of calls) of the budget that has too little left, until the expected cost is reserved.
/// Returns false if the client has disconnected, or if the call was refused; `why_` is then the refusal.
net::awaitable<bool> call::wait_for_money() {
  std::shared_ptr<budget_line> line;
  // The call's place in the budget's queue. The call keeps its place until it has money, so no new call overtakes it.
  std::optional<budget_line::place> place;
  wait_result mine;
  // the last denial, and the last one that Redis itself, or the file of state, has decided
  std::optional<refusal> last, told;
  // A slow Redis lets the calls of a line go more slowly than the money allows. So the call asks once more before its
  // longest wait ends, even if earlier calls still wait in the line.
  constexpr duration time_of_last_question = std::chrono::seconds{2};
  time_point last_question_at = time_point::max();
  if (services_.budgets->is_shared()) {
    const time_point now = clock::now();
    last_question_at = std::max<time_point>(deadline_ - time_of_last_question, now + (deadline_ - now) / 2);
  }
  std::string to_join = line_to_join();
  for (;;) {
    if (turn_.is_called_off()) {
      why_ = turn_.why_called_off();
      co_return false;
    }
    time_point until = time_point::min();
    if (to_join.empty()) {
      auto reserving = reserve_money();
      auto lack = co_await std::move(reserving);
      if (turn_.is_called_off()) continue;
      if (lack && money_->was_cut() && services_.may_wait()) continue;
      bool waits_on = lack && may_wait_for(*lack) && clock::now() < deadline_;
      if (waits_on && mine.granted && line == services_.lines->find(lack->line)) {
        // After rest(), no call of the queue tries to reserve money, until money is given back or a timer expires.
        // But money may have been given back after reserve_money() failed, and before rest() is called. So
        // reserve_money() is called once more after rest(). If money is given back while reserve_money() runs, rests()
        // returns false. In that case this loop calls rest() and reserve_money() again, so that no other call of the
        // queue overtakes this call.
        bool tries_again = true;
        while (tries_again) {
          line->rest(lack->until);
          auto again = reserve_money();
          lack = co_await std::move(again);
          waits_on = lack && may_wait_for(*lack) && clock::now() < deadline_;
          const bool is_cut = lack && money_->was_cut() && services_.may_wait() && clock::now() < deadline_;
          tries_again = (is_cut || (waits_on && !line->rests())) && !turn_.is_called_off();
        }
        if (!waits_on || turn_.is_called_off()) line->look_again();
      }
      if (turn_.is_called_off()) continue;
      if (!lack) co_return true;
      last = lack->why;
      if (lack->why.error == "budget_spent") told = lack->why;
      if (services_.budgets->is_shared() && services_.is_draining()) {
        // A drain ends the calls that wait. If the drain began during reserve_money(), this call did not wait yet, so
        // the drain did not end it. The call ends here.
        why_ = ended_by_drain();
        co_return false;
      }
      if (!waits_on) {
        why_ = clock::now() >= deadline_ && told ? std::move(*told) : std::move(lack->why);
        co_return false;
      }
      to_join = std::move(lack->line);
      if (lack->is_spent) until = steady(lack->until);
    }
    mine.granted.release();
    mine.error = {};
    if (auto next = services_.lines->of(to_join); next != line) {
      place.reset();
      line = std::move(next);
      if (line->waiting() >= to().queue) {
        why_ = refusal{429, "queue_full",
                       fmt::format("{} calls wait for money of the {}, and no more may wait", line->waiting(),
                                   name_of_wait(to_join)),
                       std::chrono::seconds{1}};
        co_return false;
      }
      place.emplace(*line);
    }
    const time_point end = std::min(deadline_, last_question_at);
    auto waiting = turn_.wait_outside(line->turns(), name_of_wait(to_join), end, until, mine);
    co_await std::move(waiting);
    const std::string joined = std::exchange(to_join, {});
    if (!mine.error) continue;
    const bool is_late = mine.error == errc::timed_out || mine.error == errc::deadline_unreachable;
    const bool is_time_for_last_question = is_late && last_question_at != time_point::max();
    if (is_time_for_last_question) last_question_at = time_point::max();
    if (is_time_for_last_question && services_.budgets->is_slow()) continue;
    if (is_time_for_last_question && clock::now() < deadline_) {
      to_join = joined;
      continue;
    }
    line->look_again();  // this call leaves the queue; the next call may need less money, so that call tries now
    const bool is_cut = mine.error == net::error::operation_aborted;
    // If the call was called off (for example, its client has disconnected), the next round of the loop ends the call.
    // If the wait was cancelled without a drain, for example by a reload, the next round tries again.
    if (is_cut && (turn_.is_called_off() || !services_.is_draining())) continue;
    if (is_cut) {
      why_ = ended_by_drain();
    } else if (is_late) {
      why_ = reserve_at_deadline(told ? told : last);
      if (!why_) co_return true;
    } else {
      why_ = refusal_of(mine.error, queue(), route_.tenant, turn_.ask());
    }
    co_return false;
  }
}

/// Ends the call's wait in the line of a budget at the call's deadline. Reserves the money if this instance alone can
/// decide that; then returns nothing. Otherwise returns a refusal, without a further question to Redis. `last`: the
/// last denial.
std::optional<refusal> call::reserve_at_deadline(const std::optional<refusal>& last) {
  const newest_terms now{*snapshot_, *loop_.now, to(), route_.tenant};
  const bool is_up_to_redis = money_->must_ask(*now.to, *now.whose);
  const auto lack = is_up_to_redis ? money_->find_lack(*now.to, *now.whose)
                                   : money_->reserve(*now.settings, *now.to, *now.whose, account_->estimate());
  if (!is_up_to_redis) return lack ? std::optional{lack->why} : std::nullopt;
  if (lack && lack->why.error == "budget_spent") return lack->why;
  if (last) return last;
  if (lack) return lack->why;
  return refusal{402, "budget_spent", "until the call's longest wait was over, earlier calls waited for the same money",
                 std::chrono::seconds{1}};
}

/// Whether the target has a budget that counts the cost of the call.
bool call::counts_at_target(std::size_t target) const {
  if (!money_ || to().targets.empty()) return false;
  const newest_terms now{*snapshot_, *loop_.now, to(), route_.tenant};
  return target < now.to->targets.size() && now.to->targets[target].budget;
}

/// Reserves the expected cost of the attempt in the budget of this target. Precondition: the target has a budget.
/// Returns false if the budget has too little left.
net::awaitable<bool> call::reserve_at_target(std::size_t target) {
  const std::shared_ptr<const config_snapshot> kept = loop_.now;  // a reload may replace loop_.now before Redis answers
  const newest_terms now{*snapshot_, *kept, to(), route_.tenant};
  const auto& at = now.to->targets[target];
  const time_point start = clock::now();
  bool is_reserved = false;
  {
    const turn::outside waiting{turn_, "budget of target", true};
    auto reserving = money_->reserve_at(at, end_of_questions(), waiting.stop());
    is_reserved = co_await std::move(reserving);
  }
  note_question("budget of target", start);
  co_return is_reserved;
}

/// Returns the targets of the set `of` whose budgets have enough left for the call. If a target's budget has too little
/// left, and the call waits, the check is repeated within a second.
target_set call::with_money(target_set of) {
  if (!money_ || to().targets.empty()) return of;
  const newest_terms now{*snapshot_, *loop_.now, to(), route_.tenant};
  target_set rich = of;
  for (std::size_t i = 0; i < now.to->targets.size(); ++i)
    if (has(of, i) && money_->find_lack(now.to->targets[i])) rich &= ~(target_set{1} << i);
  if (rich != of) {
    lacks_money_of_target_ = true;
    services_.watch_money_of_targets();
  }
  return rich;
}

}  // namespace canigo::gateway
