#include "gateway/admin/budget_state.hpp"

#include "gateway/admin/metric_text.hpp"
#include "gateway/call/call_money.hpp"
#include "gateway/process/service.hpp"

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace canigo::gateway {
namespace {

using json = nlohmann::json;
using std::chrono::sys_seconds;

sys_seconds now() { return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()); }

double usd(micro_usd amount) { return static_cast<double>(amount) / static_cast<double>(one_usd); }

micro_usd left(const budget_options& terms, const budget_ledger::look& l) {
  return terms.most - std::min(terms.most, l.spent + l.reserved);
}

/// Returns the number of calls that wait for money of the budget.
std::size_t waiting_for(service& s, const budget_ledger::budget& b) {
  const auto line = s.lines->find(fmt::format("{} {}", b.kind, b.name));
  return line ? line->waiting() : 0;
}

}  // namespace

json budgets_of(service& s, const config& c) {
  json all = json::array();
  const sys_seconds at = now();
  for (const budget_ledger::budget& b : shown_budgets(c)) {
    const budget_ledger::look l = s.budgets->look_at(b, at);
    all.push_back({{"kind", b.kind},
                   {"name", b.name},
                   {"usd", usd(b.terms->most)},
                   {"per", name_of(b.terms->per)},
                   {"zone", b.terms->zone},
                   {"at", name_of(b.terms->at)},
                   {"spent", usd(l.spent)},
                   {"reserved", usd(l.reserved)},
                   {"waiting", waiting_for(s, b)},
                   {"left", usd(left(*b.terms, l))},
                   {"until", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                         fmt::gmtime(std::chrono::system_clock::to_time_t(l.window.end)))},
                   {"until_ms", std::chrono::milliseconds{l.window.end - at}.count()}});
  }
  return all;
}

void show_budgets(metric_text& m, service& s, const config& c) {
  const auto all = shown_budgets(c);
  if (all.empty()) return;
  const sys_seconds at = now();
  std::vector<budget_ledger::look> looks;
  for (const budget_ledger::budget& b : all) looks.push_back(s.budgets->look_at(b, at));
  const auto each = [&](auto value) {
    for (std::size_t i = 0; i < all.size(); ++i)
      m.sample({{"kind", all[i].kind}, {"name", all[i].name}}, usd(value(*all[i].terms, looks[i])));
  };
  m.gauge("budget_usd", "US dollars that a budget allows in each window.");
  each([](const budget_options& terms, const budget_ledger::look&) { return terms.most; });
  m.gauge("budget_spent_usd", "US dollars that ended calls have spent in the budget's present window.");
  each([](const budget_options&, const budget_ledger::look& l) { return l.spent; });
  m.gauge("budget_reserved_usd", "US dollars that a budget has reserved for calls that have not ended.");
  each([](const budget_options&, const budget_ledger::look& l) { return l.reserved; });
  m.gauge("budget_waiting", "Calls that wait for money of a budget.");
  for (const budget_ledger::budget& b : all) m.sample({{"kind", b.kind}, {"name", b.name}}, waiting_for(s, b));
  m.counter("state_failures_total", "Failed attempts to write or read a budget's sum in the state file or in Redis.");
  m.sample({}, s.budgets->failures());
}

}  // namespace canigo::gateway
