#pragma once

#include <nlohmann/json_fwd.hpp>

namespace canigo::gateway {

class metric_text;
class service;
struct config;

/// Describes each budget: its settings, the spent, reserved and remaining money of its current window, and the window's
/// end. The budgets of upstreams and their targets come first. After them come the budgets of tenants, but only of the
/// first tenants in the configuration that have a budget.
nlohmann::json budgets_of(service& s, const config& c);

/// Writes the state of the budgets as metrics. Writes nothing if the configuration has no budget.
void show_budgets(metric_text& m, service& s, const config& c);

}  // namespace canigo::gateway
