#include "canigo/redis/limiter.hpp"

#include "canigo/error.hpp"

#include "ledger.hpp"

namespace canigo::redis {
namespace {

using canigo::detail::throw_invalid;

std::shared_ptr<const detail::unit_table> checked_units(const std::vector<rate_limit>& rates) {
  std::vector<std::string> units;
  for (const rate_limit& l : rates) {
    const std::string field = "limiter_options.rates[" + std::to_string(units.size()) + "].";
    detail::checked_tokens(field + "burst", l.burst, 1);
    if (l.initial_tokens != 0) {
      throw_invalid(field + "initial_tokens", l.initial_tokens, "0, because a bucket in Redis starts empty");
    }
    if (l.window != rate_window::average) {
      throw_invalid(field + "window", "strict", "average, because Redis keeps no log of grants");
    }
    units.push_back(l.unit);
  }
  return std::make_shared<const detail::unit_table>(units, "limiter_options.rates");
}

detail::ledger_options checked(std::string_view name, const limiter_options& o) {
  const bool has_cap = o.concurrency != unlimited;
  if (o.rates.size() > detail::most_rates || (o.rates.empty() && !has_cap)) {
    throw_invalid("limiter_options.rates.size()", o.rates.size(), "1 to 16, or 0 with a concurrency");
  }
  if (has_cap) detail::checked_tokens("limiter_options.concurrency", o.concurrency, 1);
  if (has_cap && (o.lease < std::chrono::milliseconds{10} || o.lease > std::chrono::hours{24})) {
    throw_invalid("limiter_options.lease", o.lease, "10ms to 1d");
  }
  detail::check(o.on_failure, "limiter_options.on_failure");
  if (has_cap && o.on_failure.what() != failure_mode::kind::closed) {
    const bool is_open = o.on_failure.what() == failure_mode::kind::open;
    throw_invalid("limiter_options.on_failure", is_open ? "open" : "local", "closed, because there is a cap");
  }
  return {.kind = "l",
          .name = std::string{name},
          .space = o.space,
          .permits = has_cap ? o.concurrency : 0,
          .rates = o.rates,
          .units = checked_units(o.rates),
          .lease = has_cap ? o.lease : detail::session_without_permits,
          .priorities = o.priorities,
          .queue_limit = o.queue_limit,
          .on_overflow = o.on_overflow,
          .give_up = o.give_up,
          .quarantine = o.quarantine,
          .on_failure = o.on_failure};
}

}  // namespace

limiter::limiter(client& c, std::string_view name, const limiter_options& options)
    : limit_handle{detail::ledger::open(c, checked(name, options))} {}

void limiter::set_rate(std::size_t index, const canigo::rate& r) { ledger_->set_rate(index, r); }

void limiter::set_burst(std::size_t index, std::uint64_t burst) { ledger_->set_burst(index, burst); }

void limiter::set_concurrency(std::uint64_t concurrency) {
  if (!ledger_->has_cap()) {
    throw_invalid("limiter.set_concurrency: concurrency", concurrency, "none: the limiter was made without one");
  }
  ledger_->set_permits(detail::checked_tokens("limiter.set_concurrency: concurrency", concurrency, 1));
}

duration limiter::estimate(request r) const { return ledger_->estimate(r); }

}  // namespace canigo::redis
