#include "canigo/detail/admission/flow_host.hpp"

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/error.hpp"
#include "canigo/flow.hpp"

#include <algorithm>
#include <string>

namespace canigo::detail {

namespace {

/// Returns the index of the rate's unit in the limit. Throws if the limit has no unit with that name.
std::size_t unit_of(const rate_limit& l, const supplies* of, const std::string& field) {
  if (l.unit.empty()) return 0;
  const unit_table* const units = of != nullptr ? of->units() : nullptr;
  const std::size_t unit = units != nullptr ? units->find(l.unit.c_str()) : 0;
  if (units == nullptr) throw_invalid(field + "unit", '"' + l.unit + '"', "none");
  if (unit == units->size()) throw_invalid(field + "unit", '"' + l.unit + '"', units->listed(0));
  return unit;
}

/// Returns the largest burst among those rates of the limit that count the unit. A flow can't get more tokens of the
/// unit in one request.
std::uint64_t deepest(const supplies* of, std::size_t unit) noexcept {
  if (of == nullptr || !of->has_rates()) return token_bucket::max_burst;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < of->rates().size(); ++i) {
    if (of->rates().unit_of(i) == unit) most = std::max(most, of->rates()[i].burst());
  }
  return most;
}

}  // namespace

void check_flow_weight(std::string_view field, std::uint32_t weight) {
  if (weight < 1 || weight > fair_queue::most_weight) throw_invalid(field, weight, "1 to 10000");
}

flow_terms to_terms(const flow_options& o, const supplies* of, time_point now) {
  check_flow_weight("flow_options.weight", o.weight);
  if (o.queue_limit < 1) throw_invalid("flow_options.queue_limit", o.queue_limit, "1 or more");
  if (o.rates.size() > most_rates_of_flow) throw_invalid("flow_options.rates.size()", o.rates.size(), "0 to 16");
  flow_terms terms{
      .weight = o.weight, .cap = o.concurrency, .queue_limit = o.queue_limit, .times_waits = o.times_waits};
  terms.rates.reserve(o.rates.size());
  for (const rate_limit& l : o.rates) {
    const std::string field = "flow_options.rates[" + std::to_string(terms.rates.size()) + "].";
    check_tokens(field, l.burst, l.initial_tokens);
    check_window(field, l.window, l.rate, l.burst);
    const std::size_t unit = unit_of(l, of, field);
    const std::uint64_t most_burst = deepest(of, unit);
    if (l.burst > most_burst) {
      throw_invalid(field + "burst", l.burst, "1 to " + std::to_string(most_burst) + ", the burst of the limit");
    }
    terms.rates.emplace_back(l.rate, l.burst, l.initial_tokens, now);
    add_window(terms.windows, terms.rates.size(), l.window, l.rate);
    if (of != nullptr && of->has_units()) terms.units.push_back(static_cast<std::uint8_t>(unit));
  }
  return terms;
}

void read_flow(const fair_queue& q, std::uint32_t flow, time_point now, flow_stats& s) {
  const flow_ceiling& ceiling = q.ceiling(flow);
  const flow_counts counts = q.counts(flow);
  s.weight = q.weight(flow);
  s.waiting = q.flow_size(flow);
  s.granted = counts.granted;
  s.tokens = counts.tokens;
  s.failed = counts.failed;
  s.held = ceiling.occupied();
  s.is_held_back = q.is_held(flow);
  s.paused_until = ceiling.paused_until();
  if (const wait_histogram* waits = q.waits(flow)) s.wait = *waits;
  for (std::size_t i = 0; i < ceiling.rates().size(); ++i) s.available.push_back(ceiling.rates().available(i, now));
}

}  // namespace canigo::detail
