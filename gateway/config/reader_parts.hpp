#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/table_view.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Each function reads one part of a configuration. References between parts are checked when all have been read.
namespace canigo::gateway {

/// A name in logs, metrics and paths: 1 to 64 letters, digits, '_', '-' and '.'.
bool is_plain_name(std::string_view text) noexcept;
inline constexpr std::string_view name_syntax = "1 to 64 letters, digits, '_', '-' and '.'";

/// Reads the name of a file that can be opened now.
void read_file_name(table_view& t, std::string_view key, std::string& out);

/// The index of a class in the list; nothing, and an error, if the list does not have it.
std::optional<int> read_class(table_view& t, std::string_view key, const std::vector<std::string>& classes);

/// Reads the rates of a table. `units`: the units that a rate may name, "requests" first. `usual`: the window of a rate
/// that names no window; none: no rate may name a window. `within`: for a tenant's rates, their upstream.
std::vector<rate_limit> read_rates(table_view& t, const std::vector<std::string>& units,
                                   std::optional<rate_window> usual = rate_window::average,
                                   const upstream* within = nullptr);

void read_window(table_view& t, rate_window& window);

/// The values of the generic preset replace the defaults, and those of the provider's preset replace both.
void read_presets(table_view& t, upstream& u);
/// The values that a preset may have, and a file, too. Each takes the place of an earlier one.
void read_settings(table_view& t, upstream& u);

// The parts that an upstream and the hosts of forward mode share.
void read_queue(table_view& t, const config& c, upstream& u);
// The parts that an upstream and its targets share.
void read_url(table_view& t, origin& to);
void read_credential(table_view& t, credential& c);
void read_timeouts(table_view& t, upstream& u);
void read_retry(table_view& t, upstream& u);
void read_breaker(table_view& t, upstream& u);

/// The place of a listener in the file.
struct listener_place {
  place where;
  std::string field;
  bool is_known = true;  ///< false: its address or its anonymous tenant was refused
};

/// Returns the places of the listeners, in their order.
std::vector<listener_place> read_listeners(table_view& t, config& c);
void read_admin(table_view& t, config& c);
void read_forward(table_view& t, config& c);
void read_upstreams(table_view& t, config& c);
/// The targets of an upstream whose other settings are read.
void read_targets(table_view& t, upstream& u);
void read_sticky(table_view& t, upstream& u);
/// The prices and the file of the state, before all that may have a budget.
void read_money(table_view& t, config& c);
void read_budget(table_view& t, const config& c, std::optional<budget_options>& out);
/// Whether the calls of an upstream have prices; its other settings are read.
void check_priced(table_view& t, upstream& u, const config& c);
/// Adds the tenants that only a listener names.
void read_tenants(table_view& t, config& c, const std::vector<listener_place>& listeners);

}  // namespace canigo::gateway
