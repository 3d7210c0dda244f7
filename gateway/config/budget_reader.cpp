#include "gateway/config/calendar.hpp"
#include "gateway/config/reader_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace canigo::gateway {
namespace {

constexpr std::string_view amount_syntax =
    "US dollars and a window such as \"50/day\": up to 1000000000, above 0, for an hour, a day, a week or a month";

/// Reads an amount of money per unit of the calendar, such as "50/day", into `b`. Returns false for a text without this
/// form.
bool parse_amount(std::string_view text, budget_options& b) noexcept {
  const auto slash = text.find('/');
  if (slash == text.npos) return false;
  const auto amount = parse_usd(text.substr(0, slash));
  const auto unit = std::ranges::find(calendar_unit_names, text.substr(slash + 1));
  if (!amount || *amount == 0 || unit == calendar_unit_names.end()) return false;
  b.most = *amount;
  b.per = static_cast<calendar_unit>(unit - calendar_unit_names.begin());
  return true;
}

}  // namespace

void read_money(table_view& t, config& c) {
  if (const auto source = t.text("prices")) {
    c.prices_source = source->text;
    if (auto prices = read_prices(*source, t.problems())) c.prices = std::move(*prices);
  }
  t.word("unpriced", c.refuses_unpriced, {{"refuse", true}, {"free", false}});
  if (t.has("unpriced") && c.prices_source.empty())
    t.problems().complain(t.where("unpriced"), "unpriced", "is of no use: there are no prices");
  if (const auto state = t.text("state")) {
    c.state = state->text;
    if (c.shares_budgets()) {
      if (c.redis.source.empty()) t.problems().complain(state->where, state->field, "needs redis, which is missing");
    } else if (!c.state.starts_with('/') || c.state.ends_with('/')) {
      t.problems().refuse_text(state->where, state->field, state->text,
                               "the path of a file, such as \"/var/lib/canigo-gateway/state.db\", or \"redis\"");
    }
  }
}

void read_budget(table_view& t, const config& c, std::optional<budget_options>& out, bool may_queue) {
  auto given = t.table("budget");
  if (!given) return;
  budget_options& b = out.emplace();
  if (const auto amount = given->needed("usd", amount_syntax); amount && !parse_amount(amount->text, b))
    t.problems().refuse_text(amount->where, amount->field, amount->text, amount_syntax);
  if (const auto zone = given->text("zone")) {
    b.zone = zone->text;
    if (!is_time_zone(b.zone))
      t.problems().refuse_text(zone->where, zone->field, zone->text,
                               "a name of this system's time zones, such as \"Europe/Paris\" or \"UTC\"");
  }
  if (may_queue) {
    given->word("at", b.at,
                {{"refuse", over_budget::refuse}, {"queue", over_budget::queue}, {"warn", over_budget::warn}});
  } else {
    given->word("at", b.at, {{"refuse", over_budget::refuse}, {"warn", over_budget::warn}});
  }
  given->finish();
  if (c.prices_source.empty()) t.problems().complain(given->where(), given->field(), "needs prices, which are missing");
  if (c.state.empty())
    t.problems().complain(
        given->where(), given->field(),
        "needs state, which is missing: a file, or \"redis\", that keeps what is spent over a restart");
}

void check_priced(table_view& t, upstream& u, const config& c) {
  u.is_priced = !c.prices_source.empty() && u.tokens.api != token_api::none;
  if (u.tokens.api != token_api::none) return;
  const std::string why = "needs the tokens of calls, and " + t.field("tokens.api") + " does not say how they count";
  if (u.budget) t.problems().complain(t.where("budget"), t.field("budget"), why);
  for (std::size_t i = 0; i < u.targets.size(); ++i)
    if (u.targets[i].budget)
      t.problems().complain(t.where("target"), t.field("target[" + std::to_string(i) + "].budget"), why);
}

}  // namespace canigo::gateway
