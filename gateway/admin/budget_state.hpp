#pragma once

#include <nlohmann/json_fwd.hpp>

namespace canigo::gateway {

class metric_text;
class service;
struct config;

/// Each budget: its terms, what is spent, reserved and left in its window, and until when. Those of upstreams come
/// first, and then those of the first tenants that have one.
nlohmann::json budgets_of(service& s, const config& c);

/// The same as metrics. There are none without a budget.
void show_budgets(metric_text& m, service& s, const config& c);

}  // namespace canigo::gateway
