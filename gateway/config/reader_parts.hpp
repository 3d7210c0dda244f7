#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/table_view.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Each function reads one part of a configuration. References between parts are checked after all parts are read.
namespace canigo::gateway {

/// Whether the text is a valid name for logs, metrics and paths: 1 to 64 letters, digits, '_', '-' and '.'.
bool is_plain_name(std::string_view text) noexcept;
inline constexpr std::string_view name_syntax = "1 to 64 letters, digits, '_', '-' and '.'";

/// Whether the text is a model's name, or the beginning of a model's name with '*' at its end.
bool is_model_pattern(std::string_view text) noexcept;
inline constexpr std::string_view model_syntax =
    "1 to 64 visible characters of ASCII, of which the last may be '*' for any rest";

/// Reads the name of a file, and checks that the file can be opened now.
void read_file_name(table_view& t, std::string_view key, std::string& out);

/// Reads the name of a class, and returns its index in `classes`. Returns nothing, after reporting an error, if the
/// list does not contain it.
std::optional<int> read_class(table_view& t, std::string_view key, const std::vector<std::string>& classes);

/// The units that the rates of an upstream, a target, a model or a tenant may count. A "usd" is a millionth of a US
/// dollar.
inline const std::vector<std::string> rate_units{"requests", "tokens", "input_tokens", "output_tokens", "usd"};

/// Reads the rates of a table. `units`: the units that a rate may name, "requests" first. `usual`: the window of rates
/// that name no window; none: rates may not name a window. `within`: for the rates of a tenant, the tenant's upstream.
std::vector<rate_limit> read_rates(table_view& t, const std::vector<std::string>& units,
                                   std::optional<rate_window> usual = rate_window::average,
                                   const upstream* within = nullptr);

void read_window(table_view& t, rate_window& window);

/// Fills in defaults: the values of the generic preset replace the built-in ones, and the provider's preset replaces
/// both.
void read_presets(table_view& t, upstream& u);
/// Reads the keys that presets and a configuration file may contain. A value replaces an earlier value of the same key.
void read_settings(table_view& t, upstream& u);

// Reads the keys that upstreams and the hosts of forward mode have in common.
void read_queue(table_view& t, const config& c, upstream& u);
// Reads the keys that an upstream and its targets have in common.
void read_url(table_view& t, origin& to);
void read_credential(table_view& t, credential& c);
void read_timeouts(table_view& t, upstream& u);
void read_retry(table_view& t, upstream& u);
void read_breaker(table_view& t, upstream& u);

/// Where the file defines a listener.
struct listener_place {
  place where;
  std::string field;
  bool is_known = true;  ///< false: the listener's address or its anonymous tenant was refused
};

/// Reads the listeners, and returns their places in the file in the same order.
std::vector<listener_place> read_listeners(table_view& t, config& c);
void read_admin(table_view& t, config& c);
void read_forward(table_view& t, config& c);
void read_upstreams(table_view& t, config& c);
/// Reports an error if `u` is shared and Redis can't keep one of the rates.
void check_shared_rates(table_view& t, const upstream& u, const std::vector<rate_limit>& rates);
/// Reads the targets of an upstream. Call it after the upstream's other settings were read.
void read_targets(table_view& t, const config& c, upstream& u);
/// Reads the limits of the upstream's models.
void read_model_limits(table_view& t, upstream& u);
void read_sticky(table_view& t, upstream& u);
/// Reads the prices and the state file. Call it before the parts that may have a budget.
void read_money(table_view& t, config& c);
/// Reads a budget. `may_queue`: whether calls may wait for the budget's money.
void read_budget(table_view& t, const config& c, std::optional<budget_options>& out, bool may_queue = true);
/// Checks whether the calls of an upstream have prices. Call it after the upstream's other settings were read.
void check_priced(table_view& t, upstream& u, const config& c);
/// Reads the tenants, and adds those that only a listener names.
void read_tenants(table_view& t, config& c, const std::vector<listener_place>& listeners);

}  // namespace canigo::gateway
