#include "gateway/policy/budget_ledger.hpp"

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

/// The windows of one budget that are kept in memory.
struct budget_ledger::account {
  /// Enough that a budget per hour still has its windows in memory after the clock has stepped back by a day.
  static constexpr std::size_t most_windows = 64;

  std::string name;
  std::string calendar;
  calendar_window now{};  // the window of the instant given to the last call of open()
  std::map<instant, sum> windows;

  spent_store::window of(instant begin) const noexcept { return {name, calendar, begin}; }
};

budget_ledger::budget_ledger(std::unique_ptr<spent_store> store) : store_{std::move(store)} {
  if (store_) catching_up_ = std::jthread{[this](const std::stop_token& stop) { catch_up(stop); }};
}

budget_ledger::~budget_ledger() {
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

/// Makes sure that the sum of a window is in memory: reads it from the store if necessary. If that fails, the sum stays
/// unknown.
void budget_ledger::open_window(account& a, instant begin) {
  sum& s = a.windows[begin];
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
  for (auto w = a.windows.begin(); w != a.windows.end() && a.windows.size() > account::most_windows;) {
    const bool is_idle = w->second.reserved == 0 && w->second.unsaved == 0 && w->first != begin;
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
  for (const hold::part& p : parts) p.of->windows.at(p.window).reserved += amount;
  to.ledger_ = this;
  to.amount_ = amount;
  to.parts_ = std::move(parts);
  return std::nullopt;
}

void budget_ledger::settle(hold& h, micro_usd cost) noexcept {
  count(h, cost);
  if (!freed_) return;
  for (const hold::part& p : h.parts_) freed_(p.of->name);
}

void budget_ledger::count(const hold& h, micro_usd cost) noexcept {
  const std::lock_guard lock{mutex_};
  for (const hold::part& p : h.parts_) p.of->windows.at(p.window).reserved -= h.amount_;
  if (cost == 0) return;
  std::vector<spent_store::entry> entries;
  for (const hold::part& p : h.parts_) {
    sum& s = p.of->windows.at(p.window);
    s.spent += cost;
    if (!store_) continue;
    s.unsaved += cost;
    entries.push_back({p.of->of(p.window), s.unsaved});
  }
  if (entries.empty() || is_behind_) return;
  if (!store_->add(entries)) return fall_behind();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    sum& s = h.parts_[i].of->windows.at(h.parts_[i].window);
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

/// Adds all sums that the store lacks to the store. Returns false if the store can't take them now.
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

/// Runs on the ledger's thread. After the store did not take a sum, tries again until all sums are stored. A stop
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
  const account& a = open(b, now);
  const sum& s = a.windows.at(a.now.begin);
  return {a.now, s.spent, s.reserved};
}

}  // namespace canigo::gateway
