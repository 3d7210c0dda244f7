#include "gateway/policy/budget_ledger.hpp"

#include "gateway/policy/budget_account.hpp"
#include "gateway/wire/standard_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stop_token>
#include <thread>
#include <utility>

namespace canigo::gateway {
namespace {

constexpr auto between_tries = std::chrono::milliseconds{100};

}  // namespace

budget_ledger::budget_ledger(std::unique_ptr<spent_store> store) : store_{std::move(store)} {
  if (store_) catching_up_ = std::jthread{[this](const std::stop_token& stop) { catch_up(stop); }};
}

budget_ledger::~budget_ledger() {
  if (is_shared()) {
    const auto is_unsaved = [](const auto& w) { return w.second.unsaved != 0; };
    const auto lacks = [&](const auto& a) { return std::ranges::any_of(a.second->windows, is_unsaved); };
    if (std::ranges::any_of(accounts_, lacks)) say("Redis lacks a part of what was spent: it does not answer");
  }
  if (!store_) return;
  catching_up_.request_stop();
  catching_up_.join();
  constexpr int tries = 10;
  bool has_all = !is_behind_;
  for (int i = 0; i < tries && !has_all; ++i) {
    if (i > 0) std::this_thread::sleep_for(between_tries);
    has_all = save();
  }
  if (!has_all) say("the file state lacks a part of what was spent: it can't be written");
}

budget_ledger::hold::hold(hold&& other) noexcept
    : ledger_{std::exchange(other.ledger_, nullptr)},
      amount_{std::exchange(other.amount_, 0)},
      parts_{std::move(other.parts_)} {}

budget_ledger::hold& budget_ledger::hold::operator=(hold&& other) noexcept {
  if (this == &other) return *this;
  settle(0);
  ledger_ = std::exchange(other.ledger_, nullptr);
  amount_ = std::exchange(other.amount_, 0);
  parts_ = std::move(other.parts_);
  return *this;
}

void budget_ledger::hold::settle(micro_usd cost) noexcept {
  if (ledger_ == nullptr) return;
  ledger_->settle(*this, cost);
  ledger_ = nullptr;
  amount_ = 0;
  parts_.clear();
}

/// Returns the account of a budget, and sets the account's `now` to the window that contains the instant `now`.
budget_ledger::account& budget_ledger::open(const budget& b, instant now) {
  std::unique_ptr<account>& a =
      accounts_[{fmt::format("{} {}", b.kind, b.name), fmt::format("{} {}", name_of(b.terms->per), b.terms->zone)}];
  if (!a) {
    a = std::make_unique<account>();
    a->name = fmt::format("{} {}", b.kind, b.name);
    a->calendar = fmt::format("{} {}", name_of(b.terms->per), b.terms->zone);
  }
  if (!a->now.contains(now)) a->now = window_of(b.terms->per, b.terms->zone, now);
  open_window(*a, a->now.begin);
  return *a;
}

/// Makes sure that the sum of a window is in memory: reads the sum from the store if necessary. If this read fails, the
/// sum stays unknown.
void budget_ledger::open_window(account& a, instant begin) {
  const auto [at, is_new] = a.windows.try_emplace(begin);
  sum& s = at->second;
  if (is_shared()) {
    if (is_new) {
      s.member = fmt::format("{}.{}", instance_, ++windows_made_);
      forget_idle_windows(a, begin);
    }
    return;
  }
  if (s.is_known) return;
  const auto before = store_ ? store_->spent(a.of(begin)) : std::optional<micro_usd>{0};
  if (!before) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    if (!std::exchange(is_unreadable_, true))
      say("the file state can't be read: calls that a budget counts are refused until it can");
    return;
  }
  is_unreadable_ = false;
  s.is_known = true;
  s.spent = *before + s.unsaved;
  if (store_) store_->forget_old(a.of(begin));
  forget_idle_windows(a, begin);
}

/// Removes idle windows from memory while the account has more than most_windows windows. Never removes the window that
/// begins at `but`.
void budget_ledger::forget_idle_windows(account& a, instant but) {
  for (auto w = a.windows.begin(); w != a.windows.end() && a.windows.size() > account::most_windows;) {
    const sum& s = w->second;
    const bool is_idle = s.reserved == 0 && s.unsaved == 0 && !s.is_due && !s.is_stated && w->first != but;
    w = is_idle ? a.windows.erase(w) : std::next(w);
  }
}

/// Returns the denial by the first budget that has too little left; nothing if all have enough. Stores the window of
/// each checked budget in `parts`. Precondition: mutex_ is locked.
std::optional<budget_ledger::denial> budget_ledger::judge(std::span<const budget> budgets, micro_usd amount,
                                                          instant now, std::vector<hold::part>& parts) {
  parts.reserve(budgets.size());
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    account& a = open(budgets[i], now);
    const sum& s = a.windows.at(a.now.begin);
    parts.push_back({&a, a.now.begin});
    if (amount == 0 || budgets[i].terms->at == over_budget::warn) continue;
    const micro_usd most = budgets[i].terms->most;
    if (is_shared()) {
      if (auto denied = guess(parts.back(), amount, most)) {
        denied->which = i;
        return denied;
      }
      continue;
    }
    if (!s.is_known || s.spent + s.reserved + amount > most)
      return denial{i, {a.now, s.spent, s.reserved}, s.is_known && s.spent + amount > most, s.is_known};
  }
  return std::nullopt;
}

std::optional<budget_ledger::denial> budget_ledger::find_denial(std::span<const budget> budgets, micro_usd amount,
                                                                instant now) {
  const std::lock_guard lock{mutex_};
  std::vector<hold::part> parts;
  return judge(budgets, amount, now, parts);
}

std::optional<budget_ledger::denial> budget_ledger::reserve(std::span<const budget> budgets, micro_usd amount,
                                                            instant now, hold& to) {
  const std::lock_guard lock{mutex_};
  std::vector<hold::part> parts;
  if (auto denied = judge(budgets, amount, now, parts)) return denied;
  for (const hold::part& p : parts) sum_of(p).reserved += amount;
  to.ledger_ = this;
  to.amount_ = amount;
  to.parts_ = std::move(parts);
  if (is_shared() && amount != 0) make_due(to.parts_);
  return std::nullopt;
}

void budget_ledger::settle(hold& h, micro_usd cost) noexcept {
  count(h, cost);
  if (!freed_) return;
  for (const hold::part& p : h.parts_) freed_(p.of->name);
}

void budget_ledger::count(const hold& h, micro_usd cost) noexcept {
  const std::lock_guard lock{mutex_};
  for (const hold::part& p : h.parts_) sum_of(p).reserved -= h.amount_;
  if (is_shared() && (cost != 0 || h.amount_ != 0)) make_due(h.parts_);
  if (cost == 0) return;
  std::vector<spent_store::entry> entries;
  for (const hold::part& p : h.parts_) {
    sum& s = sum_of(p);
    s.spent += cost;
    if (is_shared()) s.settled += cost;
    if (store_ || is_shared()) s.unsaved += cost;
    if (store_) entries.push_back({p.of->of(p.window), s.unsaved});
  }
  if (entries.empty() || is_behind_) return;
  if (!store_->add(entries)) return fall_behind();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    sum& s = sum_of(h.parts_[i]);
    s.unsaved = 0;
    s.is_known = true;
    s.spent = entries[i].all;  // the sum in the store, which includes what other processes have added
  }
}

void budget_ledger::fall_behind() noexcept {
  failures_.fetch_add(1, std::memory_order_relaxed);
  is_behind_ = true;
  fell_behind_.notify_one();
}

/// Adds the unsaved amount of each window to the store. Returns false if the store can't take these amounts now.
bool budget_ledger::save() {
  std::vector<spent_store::entry> entries;
  std::vector<sum*> sums;
  for (const auto& [name, a] : accounts_) {
    for (auto& [begin, s] : a->windows) {
      if (s.unsaved == 0) continue;
      entries.push_back({a->of(begin), s.unsaved});
      sums.push_back(&s);
    }
  }
  if (!entries.empty() && !store_->add(entries)) return false;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i]->unsaved = 0;
    sums[i]->is_known = true;
    sums[i]->spent = entries[i].all;
  }
  return true;
}

/// Runs on the ledger's thread. When the store has failed to take a sum, tries again until all sums are stored. A stop
/// request ends the function, even during a wait.
void budget_ledger::catch_up(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  for (;;) {
    fell_behind_.wait(lock, stop, [this] { return is_behind_; });
    if (stop.stop_requested()) return;
    say("the file state can't be written: sums of budgets are kept in memory until it can");
    do {
      if (fell_behind_.wait_for(lock, stop, between_tries, [&] { return stop.stop_requested(); })) return;
    } while (!stop.stop_requested() && !save());
    if (stop.stop_requested()) return;
    is_behind_ = false;
    say("the file state is written again, and has all sums");
  }
}

budget_ledger::look budget_ledger::look_at(const budget& b, instant now) {
  const std::lock_guard lock{mutex_};
  account& a = open(b, now);
  const hold::part current{&a, a.now.begin};
  sum& s = sum_of(current);
  if (is_shared()) {
    s.looked_at = now_();
    if (!is_fresh(s)) make_due({&current, 1});
  }
  // Spent money that Redis has not confirmed is shown as reserved. If this process were killed now, the record of that
  // money would be lost.
  const micro_usd unconfirmed = is_shared() ? s.unsaved : 0;
  return {a.now, s.spent - unconfirmed, s.reserved + s.others + unconfirmed};
}

}  // namespace canigo::gateway
