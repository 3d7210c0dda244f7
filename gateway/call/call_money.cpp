#include "gateway/call/call_money.hpp"

#include "canigo/error.hpp"

#include "gateway/config/units.hpp"

#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace canigo::gateway {
namespace {

refusal refusal_by_price(const token_estimate& e) {
  std::string detail = e.model.empty() ? "the call names no model, and prices has none for all models"
                                       : fmt::format("prices has none for the model \"{}\"", e.model);
  return {404, "no_price", detail + ", and a budget counts the call", {}, true};
}

std::chrono::sys_seconds now_in_seconds() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

budget_ledger::budget budget_of(const target& t) { return {"target", t.full_name, &*t.budget}; }

std::vector<budget_ledger::budget> budgets_of(const upstream& u, const tenant& whose) {
  std::vector<budget_ledger::budget> budgets;
  if (u.budget) budgets.push_back({"upstream", u.name, &*u.budget});
  if (whose.budget) budgets.push_back({"tenant", whose.name, &*whose.budget});
  return budgets;
}

std::string line_of(const budget_ledger::budget& b) { return fmt::format("{} {}", b.kind, b.name); }

bool may_refuse(const budget_options& b) noexcept { return b.at != over_budget::warn; }

/// Returns the refusal of a call for which the budget `b` has too little money. `store`: where the budget's sums are
/// stored, such as "Redis"; used in the text of the refusal.
refusal refusal_by_budget(const budget_ledger::budget& b, const budget_ledger::denial& denied, micro_usd amount,
                          const std::string& store) {
  // How long a refused client is asked to wait if running calls hold the rest of the budget. By then, these calls may
  // have given back a part of their reserved money.
  constexpr duration until_others_end = std::chrono::seconds{1};
  const budget_options& terms = *b.terms;
  std::string detail = fmt::format("the budget of {} \"{}\", {} USD in a {}, ", b.kind, b.name, usd_text(terms.most),
                                   name_of(terms.per));
  const std::string cost = fmt::format("less than the {} USD that the call may cost", usd_text(amount));
  if (amount > terms.most) return {402, "budget_spent", detail + "is " + cost, {}, true};
  if (!denied.is_known) {
    constexpr duration until_next_look = std::chrono::seconds{10};
    return {503, "store_unavailable", detail + "has a sum that can't be read from " + store, until_next_look};
  }
  if (!denied.is_spent) {
    detail += "has " + cost + " beside the calls that run";
    return {402, "budget_spent", std::move(detail), until_others_end};
  }
  const auto resets = denied.sums.window.end;
  detail += fmt::format("has {} left, until {}", cost, local_text(terms.zone, resets));
  return {402, "budget_spent", std::move(detail), resets - std::chrono::system_clock::now(), true};
}

/// Returns the refusal of a call for which the budget has too little money left. If the call may wait for money, the
/// result also names the queue in which the call waits.
call_money::lack lack_of(const budget_ledger& ledger, const budget_ledger::budget& b,
                         const budget_ledger::denial& denied, micro_usd amount) {
  call_money::lack l{.why = refusal_by_budget(b, denied, amount, ledger.is_shared() ? "Redis" : "the file of state"),
                     .until = denied.sums.window.end,
                     .is_spent = denied.is_spent};
  if (b.terms->at == over_budget::queue && amount <= b.terms->most) l.line = line_of(b);
  return l;
}

/// How a question for money ended.
struct question_end {
  budget_ledger::outcome outcome;
  bool was_cut = false;  // a cancellation has ended the question
};

/// A call that waits for the answer of Redis to a question for money. Threads: all functions run on the call's loop.
template <class Handler>
class waiting_for_answer : public std::enable_shared_from_this<waiting_for_answer<Handler>> {
 public:
  waiting_for_answer(Handler h, budget_ledger& ledger, net::cancellation_slot stop)
      : on_{net::get_associated_executor(h)}, ledger_{ledger}, stop_{stop}, limit_{on_}, handler_{std::move(h)} {}

  void ask(std::span<const budget_ledger::budget> budgets, micro_usd amount) {
    const auto done = [self = this->shared_from_this()](budget_ledger::outcome o) {
      net::post(self->on_, [self, o = std::move(o)]() mutable { self->end({std::move(o)}); });
    };
    question_ = ledger_.ask(budgets, amount, now_in_seconds(), done);
  }

  /// Withdraws the question at `until`, and when `stop` is emitted, unless it was answered before.
  void withdraw_at(time_point until) {
    stop_.assign([weak = this->weak_from_this()](net::cancellation_type) {
      if (const auto self = weak.lock()) self->withdraw(true);
    });
    limit_.expires_at(until);
    limit_.async_wait([self = this->shared_from_this()](const error_code& error) {
      if (!error) self->withdraw(false);
    });
  }

 private:
  void withdraw(bool is_cut) {
    auto denied = ledger_.withdraw(question_);
    if (!denied) return;  // the answer is on its way
    net::post(on_, [self = this->shared_from_this(), is_cut, denied = std::move(denied)]() mutable {
      self->end({{{}, std::move(denied)}, is_cut});
    });
  }

  void end(question_end how) {
    limit_.cancel();
    stop_.clear();
    Handler h = std::move(handler_);
    std::move(h)(std::move(how));
  }

  const net::associated_executor_t<Handler> on_;
  budget_ledger& ledger_;
  net::cancellation_slot stop_;
  net::steady_timer limit_;
  Handler handler_;
  std::uint64_t question_ = 0;
};

/// Asks Redis to reserve `amount` in the budgets, and waits for the answer, but not longer than until `until`.
net::awaitable<question_end> end_of_question(budget_ledger& ledger, std::span<const budget_ledger::budget> budgets,
                                             micro_usd amount, time_point until, net::cancellation_slot stop) {
  return net::async_initiate<const net::use_awaitable_t<>&, void(question_end)>(
      [&ledger, budgets, amount, until, stop](auto handler) {
        using waiting = waiting_for_answer<decltype(handler)>;
        const auto w = std::make_shared<waiting>(std::move(handler), ledger, stop);
        w->ask(budgets, amount);
        try {
          w->withdraw_at(until);
        } catch (const std::bad_alloc&) {  // only the limit of 2 seconds ends this wait
        }
      },
      net::use_awaitable);
}

}  // namespace

std::vector<budget_ledger::budget> shown_budgets(const config& c) {
  constexpr std::size_t most_tenants = 256;
  std::vector<budget_ledger::budget> all;
  for (const upstream& u : c.upstreams) {
    if (u.budget) all.push_back({"upstream", u.name, &*u.budget});
    for (const target& t : u.targets)
      if (t.budget) all.push_back(budget_of(t));
  }
  const std::size_t most = all.size() + most_tenants;
  for (const tenant& t : c.tenants)
    if (t.budget && all.size() < most) all.push_back({"tenant", t.name, &*t.budget});
  return all;
}

void call_money::expect(const token_estimate& e, double learned) {
  price_ = prices_->of(e.model);
  is_free_ = e.is_free;
  expected_ = price_ == nullptr || is_free_ ? 0 : expected_cost(*price_, e, learned);
}

std::optional<call_money::lack> call_money::reserve(const config& now, const upstream& u, const tenant& whose,
                                                    const token_estimate& e) {
  if (hold_ || is_free_) return std::nullopt;
  if (price_ == nullptr) return lack_of_price(now, u, whose, e);
  const std::vector<budget_ledger::budget> budgets = budgets_of(u, whose);
  const auto denied = ledger_->reserve(budgets, expected_, now_in_seconds(), hold_);
  return denied ? std::optional{lack_of(*ledger_, budgets[denied->which], *denied, expected_)} : std::nullopt;
}

/// Returns the refusal of a call for a model without a price; std::nullopt if the call is not refused. Two conditions
/// must hold for a refusal:
/// - The configuration refuses calls without a price.
/// - The call has a budget that may refuse calls, or its upstream has a rate in USD (also at a target or a model).
std::optional<call_money::lack> call_money::lack_of_price(const config& now, const upstream& u, const tenant& whose,
                                                          const token_estimate& e) const {
  const auto refuses = [](const auto& counted) { return counted.budget && may_refuse(*counted.budget); };
  const bool has_budget = refuses(u) || refuses(whose) || std::ranges::any_of(u.targets, refuses) || counts(u, "usd");
  return now.refuses_unpriced && has_budget ? std::optional{lack{.why = refusal_by_price(e)}} : std::nullopt;
}

bool call_money::must_ask(const upstream& u, const tenant& whose) const {
  if (hold_ || is_free_ || price_ == nullptr || !ledger_->is_shared()) return false;
  const std::vector<budget_ledger::budget> budgets = budgets_of(u, whose);
  return ledger_->must_ask(budgets, expected_);
}

/// Asks Redis to reserve the expected cost in the budgets.
net::awaitable<budget_ledger::outcome> call_money::outcome_of(std::span<const budget_ledger::budget> budgets,
                                                              time_point until, net::cancellation_slot stop) {
  // The second constant is for a question that the call has to ask at the end of its longest wait.
  constexpr duration least_time = std::chrono::milliseconds{500}, least_time_of_each = std::chrono::milliseconds{100};
  const time_point now = std::chrono::steady_clock::now();
  first_asked_ = std::min<time_point>(first_asked_, now);
  const time_point end = std::max<time_point>({until, first_asked_ + least_time, now + least_time_of_each});
  auto asking = end_of_question(*ledger_, budgets, expected_, end, stop);
  question_end how = co_await std::move(asking);
  was_cut_ = how.was_cut;
  co_return std::move(how.outcome);
}

net::awaitable<std::optional<call_money::lack>> call_money::ask(const upstream& u, const tenant& whose,
                                                                time_point until, net::cancellation_slot stop) {
  const std::vector<budget_ledger::budget> budgets = budgets_of(u, whose);
  auto asking = outcome_of(budgets, until, stop);
  budget_ledger::outcome o = co_await std::move(asking);
  if (o.denied) co_return lack_of(*ledger_, budgets[o.denied->which], *o.denied, expected_);
  hold_ = std::move(o.money);
  co_return std::nullopt;
}

std::vector<std::string> call_money::lines(const upstream& u, const tenant& whose) const {
  std::vector<std::string> all;
  if (is_free_ || expected_ == 0) return all;
  for (const budget_ledger::budget& b : budgets_of(u, whose))
    if (b.terms->at == over_budget::queue && expected_ <= b.terms->most) all.push_back(line_of(b));
  return all;
}

std::optional<call_money::lack> call_money::find_lack(const upstream& u, const tenant& whose) const {
  if (is_free_ || price_ == nullptr) return std::nullopt;
  const std::vector<budget_ledger::budget> budgets = budgets_of(u, whose);
  const auto denied = ledger_->find_denial(budgets, expected_, now_in_seconds());
  return denied ? std::optional{lack_of(*ledger_, budgets[denied->which], *denied, expected_)} : std::nullopt;
}

net::awaitable<bool> call_money::reserve_at(const target& t, time_point until, net::cancellation_slot stop) {
  if (!t.budget || is_free_ || price_ == nullptr) co_return true;
  const std::array one{budget_of(t)};
  if (!ledger_->must_ask(one, expected_)) co_return !ledger_->reserve(one, expected_, now_in_seconds(), at_target_);
  auto asking = outcome_of(one, until, stop);
  budget_ledger::outcome o = co_await std::move(asking);
  at_target_ = std::move(o.money);
  if (o.denied && !o.denied->is_known && std::chrono::steady_clock::now() >= until) is_too_late_to_ask_ = true;
  co_return !o.denied;
}

std::optional<call_money::lack> call_money::find_lack(const target& t) const {
  if (!t.budget || is_free_ || price_ == nullptr) return std::nullopt;
  const std::array one{budget_of(t)};
  const auto denied = is_too_late_to_ask_ && ledger_->must_ask(one, expected_)
                          ? std::optional{ledger_->unanswered(one, now_in_seconds())}
                          : ledger_->find_denial(one, expected_, now_in_seconds());
  return denied ? std::optional{lack_of(*ledger_, one[0], *denied, expected_)} : std::nullopt;
}

void call_money::settle(const std::optional<token_usage>& used, const token_usage& at_least, bool is_refused,
                        call_record& r) {
  if (!hold_ && !at_target_) return;
  const bool has_used = used && *used != token_usage{};
  micro_usd cost = expected_;
  if (is_refused && !has_used) {
    cost = 0;
  } else if (used) {
    cost = cost_of(*price_, *used);
  } else {
    cost = std::max(cost, cost_of(*price_, at_least));
  }
  hold_.settle(cost);
  at_target_.settle(cost);
  call_texts& told = texts_of(r);
  told.usd = told.usd.value_or(0) + cost;
  told.priced_as = price_->match;
}

}  // namespace canigo::gateway
