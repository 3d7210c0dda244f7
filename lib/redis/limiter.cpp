#include "canigo/redis/limiter.hpp"

#include "canigo/error.hpp"

#include "ledger.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::redis {
namespace {

using canigo::detail::throw_invalid;

/// Checks the rates, and adds the unit of each to `units`. Throws errc::invalid_argument for a rate that a limit in
/// Redis can't have, such as one with a strict window.
void check_rates(const std::vector<rate_limit>& rates, const std::string& of, std::vector<std::string>& units) {
  std::size_t i = 0;
  for (const rate_limit& l : rates) {
    const std::string field = of + ".rates[" + std::to_string(i++) + "].";
    detail::checked_tokens(field + "burst", l.burst, 1);
    if (l.initial_tokens != 0) {
      throw_invalid(field + "initial_tokens", l.initial_tokens, "0, because a bucket in Redis starts empty");
    }
    if (l.window != rate_window::average) {
      throw_invalid(field + "window", "strict", "average, because Redis keeps no log of grants");
    }
    units.push_back(l.unit);
  }
}

std::string field_of(std::size_t alternative) {
  return "limiter_options.alternatives[" + std::to_string(alternative) + "]";
}

void check_alternatives(const std::vector<alternative_options>& all) {
  if (all.size() > detail::most_alternatives) {
    throw_invalid("limiter_options.alternatives.size()", all.size(), "0 to 64");
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const alternative_options& a = all[i];
    if (a.rates.size() > detail::most_own_rates) {
      throw_invalid(field_of(i) + ".rates.size()", a.rates.size(), "0 to 16");
    }
    if (a.concurrency != unlimited) detail::checked_tokens(field_of(i) + ".concurrency", a.concurrency, 1);
    const auto is_same = [&](const alternative_options& other) { return !a.name.empty() && other.name == a.name; };
    if (std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i), is_same)) {
      throw_invalid(field_of(i) + ".name", '"' + a.name + "\" again", "a name that no other one has");
    }
  }
}

/// Returns the common rates, and then the rates of each alternative.
std::vector<rate_limit> all_rates(const limiter_options& o) {
  std::vector<rate_limit> all = o.rates;
  for (const alternative_options& a : o.alternatives) all.insert(all.end(), a.rates.begin(), a.rates.end());
  constexpr std::size_t most = detail::most_rates - 1;
  if (all.size() > most) {
    throw_invalid("limiter_options.alternatives: rates in all", all.size(), "0 to " + std::to_string(most));
  }
  return all;
}

std::vector<detail::alternative_terms> terms_of(const std::vector<alternative_options>& alternatives) {
  std::vector<detail::alternative_terms> all;
  for (const alternative_options& a : alternatives) {
    all.push_back({.name = a.name,
                   .rates = a.rates.size(),
                   .permits = a.concurrency != unlimited ? a.concurrency : 0,
                   .prefer = a.prefer});
  }
  return all;
}

detail::ledger_options checked(std::string_view name, const limiter_options& o) {
  const bool has_own_cap = o.concurrency != unlimited;
  const auto is_capped = [](const alternative_options& a) { return a.concurrency != unlimited; };
  const bool has_cap = has_own_cap || std::ranges::any_of(o.alternatives, is_capped);
  if (o.rates.size() > detail::most_own_rates || (o.rates.empty() && !has_cap && o.alternatives.empty())) {
    throw_invalid("limiter_options.rates.size()", o.rates.size(), "1 to 16, or 0 with a concurrency");
  }
  if (has_own_cap) detail::checked_tokens("limiter_options.concurrency", o.concurrency, 1);
  check_alternatives(o.alternatives);
  std::vector<std::string> units;
  check_rates(o.rates, "limiter_options", units);
  for (std::size_t i = 0; i < o.alternatives.size(); ++i) check_rates(o.alternatives[i].rates, field_of(i), units);
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
          .permits = has_own_cap ? o.concurrency
                     : has_cap   ? detail::most_tokens
                                 : 0,
          .rates = all_rates(o),
          .units = std::make_shared<const detail::unit_table>(units, "limiter_options.rates"),
          .lease = has_cap ? o.lease : detail::session_without_permits,
          .priorities = o.priorities,
          .queue_limit = o.queue_limit,
          .on_overflow = o.on_overflow,
          .give_up = o.give_up,
          .quarantine = o.quarantine,
          .on_failure = o.on_failure,
          .alternatives = terms_of(o.alternatives)};
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

alternative_handle limiter::alternative(std::size_t index) {
  const std::size_t many = ledger_->alternatives().size();
  if (index >= many) throw_invalid("limiter.alternative: index", index, "less than " + std::to_string(many));
  return {*ledger_, index};
}

alternative_handle limiter::alternative(std::string_view name) {
  std::string names;
  for (std::size_t i = 0; i < ledger_->alternatives().size(); ++i) {
    const std::string& here = ledger_->alternatives()[i].name;
    if (!name.empty() && here == name) return {*ledger_, i};
    if (!here.empty()) names.append(names.empty() ? "\"" : ", \"").append(here).append("\"");
  }
  throw_invalid("limiter.alternative: name", '"' + std::string{name} + '"',
                names.empty() ? "none, as no alternative has a name" : names);
}

duration limiter::estimate(request r) const { return ledger_->estimate(r); }

std::string_view alternative_handle::name() const noexcept { return home_->alternatives()[index_].name; }

void alternative_handle::pause_until(time_point t) { home_->pause_alternative(index_, t, true); }

void alternative_handle::extend_pause(time_point t) { home_->pause_alternative(index_, t, false); }

void alternative_handle::set_rate(std::size_t index, const canigo::rate& r) { home_->set_rate_of(index_, index, r); }

void alternative_handle::set_burst(std::size_t index, std::uint64_t burst) {
  home_->set_burst_of(index_, index, burst);
}

void alternative_handle::set_concurrency(std::uint64_t concurrency) {
  constexpr auto field = "alternative_handle.set_concurrency: concurrency";
  if (!home_->has_cap()) throw_invalid(field, concurrency, "none: the limiter was made without a cap");
  home_->set_permits_of(index_, detail::checked_tokens(field, concurrency, 1));
}

}  // namespace canigo::redis
