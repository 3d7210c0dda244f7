#include "canigo/detail/admission/flow_host.hpp"

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/error.hpp"
#include "canigo/flow.hpp"

#include <string>

namespace canigo::detail {

void check_flow_weight(std::string_view field, std::uint32_t weight) {
  if (weight < 1 || weight > fair_queue::most_weight) throw_invalid(field, weight, "1 to 10000");
}

flow_terms to_terms(const flow_options& o, std::uint64_t most_burst, time_point now) {
  check_flow_weight("flow_options.weight", o.weight);
  if (o.queue_limit < 1) throw_invalid("flow_options.queue_limit", o.queue_limit, "1 or more");
  if (o.rates.size() > most_rates_of_flow) throw_invalid("flow_options.rates.size()", o.rates.size(), "0 to 16");
  flow_terms terms{
      .weight = o.weight, .cap = o.concurrency, .queue_limit = o.queue_limit, .times_waits = o.times_waits};
  terms.rates.reserve(o.rates.size());
  for (const rate_limit& l : o.rates) {
    const std::string field = "flow_options.rates[" + std::to_string(terms.rates.size()) + "].";
    check_tokens(field, l.burst, l.initial_tokens);
    if (!l.unit.empty()) throw_invalid(field + "unit", '"' + l.unit + '"', "none");
    if (l.burst > most_burst) {
      throw_invalid(field + "burst", l.burst, "1 to " + std::to_string(most_burst) + ", the burst of the limit");
    }
    terms.rates.emplace_back(l.rate, l.burst, l.initial_tokens, now);
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
  if (const wait_histogram* waits = q.waits(flow)) s.wait = *waits;
  for (const token_bucket& b : ceiling.rates()) s.available.push_back(b.available(now));
}

}  // namespace canigo::detail
