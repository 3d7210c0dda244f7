#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/price_list.hpp"
#include "gateway/config/table_view.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Each function in this file reads one part of a configuration. References between parts are checked after all parts
// were read.
namespace canigo::gateway {

/// Whether the text may be a name in logs, metrics and paths: 1 to 64 letters, digits, '_', '-' and '.'.
bool is_plain_name(std::string_view text) noexcept;
inline constexpr std::string_view name_syntax = "1 to 64 letters, digits, '_', '-' and '.'";

/// Whether the text is a model's name, or the beginning of such a name followed by '*'.
bool is_model_pattern(std::string_view text) noexcept;
inline constexpr std::string_view model_syntax =
    "1 to 64 visible characters of ASCII, of which the last may be '*' for any rest";

/// Reports a mistake if an entry of `all` has the same pattern, or a pattern that matches all models of `match`. Then
/// `match` would have no effect, because the first pattern that matches a model counts. `t`: the table with `match`.
template <class Entries>
void check_is_reached(table_view& t, const Entries& all, const std::string& match) {
  const auto matches_first = [&](const auto& earlier) { return is_of_model(earlier.match, match); };
  const auto hides = std::find_if(all.begin(), all.end(), matches_first);
  if (hides == all.end()) return;
  const bool is_same = hides->match == match;
  t.problems().refuse_text(t.where("match"), t.field("match"), match,
                           is_same ? "each pattern once" : "before \"" + hides->match + "\", which matches it, too");
}

/// Reads the name of a file, and checks that the file can be opened now.
void read_file_name(table_view& t, std::string_view key, std::string& out);

/// Reads the name of a priority class, and returns its index in `classes`. If `classes` does not contain the name,
/// reports an error and returns nothing.
std::optional<int> read_class(table_view& t, std::string_view key, const std::vector<std::string>& classes);

/// The units that a rate of an upstream, a target, a model or a tenant may count. One "usd" is a millionth of a US
/// dollar.
inline const std::vector<std::string> rate_units{"requests", "tokens", "input_tokens", "output_tokens", "usd"};

/// Reads the rates of a table. `units`: the units that a rate may name; "requests" is the first one. `usual`: the kind
/// of window that a rate has if it names no window; nullopt: rates may not name a window. `within`: for the rates of a
/// tenant, the upstream whose limits the tenant shares.
std::vector<rate_limit> read_rates(table_view& t, const std::vector<std::string>& units,
                                   std::optional<rate_window> usual = rate_window::average,
                                   const upstream* within = nullptr);

void read_window(table_view& t, rate_window& window);

/// Fills in defaults: first the values of the preset "generic", then those of the provider's preset, which replace
/// them.
void read_presets(table_view& t, upstream& u);
/// Reads the keys that presets and a configuration file may both contain. If a key was read before, the new value
/// replaces the old one.
void read_settings(table_view& t, upstream& u);

// Reads the settings that an upstream and the hosts of forward mode have in common.
void read_queue(table_view& t, const config& c, upstream& u);
// The following two functions read the settings that an upstream and a target have in common.
void read_url(table_view& t, origin& to);
void read_credential(table_view& t, credential& c);
void read_timeouts(table_view& t, upstream& u);
void read_retry(table_view& t, upstream& u);
void read_breaker(table_view& t, upstream& u);

/// The place in the file where a listener is defined.
struct listener_place {
  place where;
  std::string field;
  bool is_known = true;  ///< false: the listener's address or its anonymous tenant had an error
};

/// Reads the listeners. Returns their places in the file, in the order of c.listeners.
std::vector<listener_place> read_listeners(table_view& t, config& c);
void read_admin(table_view& t, config& c);
void read_forward(table_view& t, config& c);
void read_upstreams(table_view& t, config& c);
/// If several instances of the gateway share the limits of `u`, checks that Redis can implement the rates. Reports an
/// error if the burst of a rate is too large, or its window is strict.
void check_shared_rates(table_view& t, const upstream& u, const std::vector<rate_limit>& rates);
/// Reads the targets of an upstream. Call it after the other settings of the upstream were read.
void read_targets(table_view& t, const config& c, upstream& u);
/// Reads the limits for single models of the upstream.
void read_model_limits(table_view& t, upstream& u);
void read_sticky(table_view& t, upstream& u);
/// Reads the prices, and the path of the state file. Call it before the parts that may have a budget are read.
void read_money(table_view& t, config& c);
/// Reads the budget of a table into `out`. `may_queue`: whether calls may wait for money of this budget.
void read_budget(table_view& t, const config& c, std::optional<budget_options>& out, bool may_queue = true);
/// Sets whether the calls of an upstream have prices. Call it after the other settings of the upstream were read.
void check_priced(table_view& t, upstream& u, const config& c);
/// Reads the tenants. Adds the tenants that have no table, but are named by a listener.
void read_tenants(table_view& t, config& c, const std::vector<listener_place>& listeners);

}  // namespace canigo::gateway
