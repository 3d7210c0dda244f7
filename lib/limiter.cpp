#include "canigo/limiter.hpp"

#include "canigo/detail/admission/awaited.hpp"
#include "canigo/detail/admission/permit_grant.hpp"
#include "canigo/detail/queue/alternatives.hpp"
#include "canigo/detail/queue/rate_set.hpp"
#include "canigo/detail/queue/sublimits.hpp"
#include "canigo/detail/queue/supplies.hpp"
#include "canigo/error.hpp"
#include "canigo/time_source.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace canigo {

namespace {

constexpr std::size_t most_rates = 16;

std::uint64_t checked_concurrency(std::uint64_t concurrency, std::string_view field) {
  if (concurrency < 1) detail::throw_invalid(field, concurrency, "1 or more");
  return concurrency;
}

/// The token bucket and the window of each rate in a list of rate_limit.
struct buckets {
  std::vector<token_bucket> rates;
  detail::rate_windows windows;
};

/// Checks and converts rates, and appends the unit of each rate to `units`. `field`: the name of the rates in error
/// texts.
buckets make_buckets(const std::vector<rate_limit>& limits, const std::string& field, time_point now,
                     std::vector<std::string>& units) {
  if (limits.size() > most_rates) detail::throw_invalid(field + ".size()", limits.size(), "0 to 16");
  buckets made;
  made.rates.reserve(limits.size());
  for (const rate_limit& l : limits) {
    const std::string prefix = field + '[' + std::to_string(made.rates.size()) + "].";
    detail::check_tokens(prefix, l.burst, l.initial_tokens);
    detail::check_window(prefix, l.window, l.rate, l.burst);
    made.rates.emplace_back(l.rate, l.burst, l.initial_tokens, now);
    detail::add_window(made.windows, made.rates.size(), l.window, l.rate);
    units.push_back(l.unit);
  }
  return made;
}

std::string field_of(std::size_t alternative, const char* field) {
  return "limiter_options.alternatives[" + std::to_string(alternative) + "]." + field;
}
std::string field_of_sublimit(std::size_t number, const char* field) {
  return "limiter_options.sublimits[" + std::to_string(number) + "]." + field;
}

/// Makes a rate_set from `made`. `table` has the units of all rates of the limiter. In `table`, the unit of the first
/// rate of `made` is at the index `first`.
detail::rate_set rates_of(buckets made, const detail::unit_table* table, std::size_t first) {
  std::vector<std::uint8_t> units;
  if (table != nullptr && table->size() > 1) {
    const auto from = table->of_rates().begin() + static_cast<std::ptrdiff_t>(first);
    units.assign(from, from + static_cast<std::ptrdiff_t>(made.rates.size()));
  }
  return detail::rate_set{std::move(made.rates), std::move(units), std::move(made.windows)};
}

void check_alternatives(const limiter_options& o) {
  const std::size_t many = o.alternatives.size();
  if (many > detail::alternatives::most) {
    detail::throw_invalid("limiter_options.alternatives.size()", many, "0 to 64");
  }
  if (o.sublimits.size() > detail::most_sublimits) {
    detail::throw_invalid("limiter_options.sublimits.size()", o.sublimits.size(), "0 to 256");
  }
  if (many == 0 && o.sublimits.empty()) return;
  const std::string why = many > 0 ? ", because of the alternatives" : ", because of the sublimits";
  if (o.share) detail::throw_invalid("limiter_options.share", "a cap", "none" + why);
  if (o.mode == enforcement::shadow) detail::throw_invalid("limiter_options.mode", "shadow", "enforce" + why);
  if (o.slack > duration::zero()) detail::throw_invalid("limiter_options.slack", o.slack, "0s" + why);
  for (std::size_t i = 0; i < many; ++i) {
    const alternative_options& a = o.alternatives[i];
    checked_concurrency(a.concurrency, field_of(i, "concurrency"));
    const auto is_same = [&](const alternative_options& other) { return !a.name.empty() && other.name == a.name; };
    if (std::any_of(o.alternatives.begin(), o.alternatives.begin() + static_cast<std::ptrdiff_t>(i), is_same)) {
      detail::throw_invalid(field_of(i, "name"), '"' + a.name + "\" again", "a name that no other one has");
    }
  }
}

detail::admission* open(const net::any_io_executor& executor, const limiter_options& o,
                        std::shared_ptr<detail::shared_places> shared) {
  if (o.rates.empty() && o.concurrency == unlimited && !o.share && o.alternatives.empty() && o.sublimits.empty()) {
    detail::throw_invalid("limiter_options.rates.size()", o.rates.size(), "1 to 16, or 0 with a concurrency or share");
  }
  if (o.share && o.mode == enforcement::shadow) {
    detail::throw_invalid("limiter_options.mode", "shadow", "enforce, because places are shared");
  }
  check_alternatives(o);
  const auto now = time_source::of(executor).now();
  std::vector<std::string> units;
  buckets own = make_buckets(o.rates, "limiter_options.rates", now, units);
  std::vector<buckets> of_alternatives;
  for (const alternative_options& a : o.alternatives) {
    of_alternatives.push_back(make_buckets(a.rates, field_of(of_alternatives.size(), "rates"), now, units));
  }
  std::vector<buckets> of_sublimits;
  for (const sublimit_options& s : o.sublimits) {
    const std::size_t number = of_sublimits.size();
    checked_concurrency(s.concurrency, field_of_sublimit(number, "concurrency"));
    of_sublimits.push_back(make_buckets(s.rates, field_of_sublimit(number, "rates"), now, units));
  }
  std::shared_ptr<const detail::unit_table> table;
  if (std::ranges::any_of(units, [](const std::string& name) { return !name.empty(); })) {
    table = std::make_shared<const detail::unit_table>(units, "limiter_options.rates");
  }
  const std::size_t many_units = table != nullptr ? table->size() : 1;
  std::size_t first = o.rates.size();
  std::unique_ptr<detail::alternatives> any_of;
  if (!o.alternatives.empty()) {
    std::vector<detail::alternatives::member> members;
    for (std::size_t i = 0; i < o.alternatives.size(); ++i) {
      const alternative_options& a = o.alternatives[i];
      members.push_back({.name = a.name,
                         .rates = rates_of(std::move(of_alternatives[i]), table.get(), first),
                         .capacity = a.concurrency,
                         .prefer = a.prefer});
      first += a.rates.size();
    }
    any_of = std::make_unique<detail::alternatives>(std::move(members), many_units);
  } else if (!o.sublimits.empty()) {
    any_of = std::make_unique<detail::alternatives>(std::vector<detail::alternatives::member>(1), many_units, true);
  }
  std::unique_ptr<detail::sublimits> named;
  if (!o.sublimits.empty()) {
    std::vector<detail::sublimits::member> members;
    for (std::size_t i = 0; i < o.sublimits.size(); ++i) {
      const sublimit_options& s = o.sublimits[i];
      members.push_back({.name = s.name,
                         .rates = rates_of(std::move(of_sublimits[i]), table.get(), first),
                         .capacity = s.concurrency});
      first += s.rates.size();
    }
    named = std::make_unique<detail::sublimits>(std::move(members), many_units);
  }
  detail::supplies supplies{std::move(own.rates),
                            checked_concurrency(o.concurrency, "limiter_options.concurrency"),
                            detail::supplies::occupancy::one,
                            std::move(shared),
                            std::move(table),
                            std::move(own.windows),
                            std::move(any_of),
                            std::move(named)};
  return detail::admission::open(executor, std::move(supplies),
                                 detail::checked("limiter_options", {.priorities = o.priorities,
                                                                     .queue_limit = o.queue_limit,
                                                                     .on_overflow = o.on_overflow,
                                                                     .ageing = o.ageing,
                                                                     .shedding = o.shedding,
                                                                     .slack = o.slack,
                                                                     .mode = o.mode,
                                                                     .times_binding = true,
                                                                     .name = detail::make_name(o.name)}));
}

std::size_t checked_index(const detail::rate_set& rates, std::size_t index, std::string_view field) {
  if (index >= rates.size()) detail::throw_invalid(field, index, "less than " + std::to_string(rates.size()));
  return index;
}

alternative_stats stats_of(const detail::alternatives::member& m, time_point now) {
  alternative_stats s{.name = m.name,
                      .tokens = {},
                      .held = m.occupied,
                      .concurrency = m.capacity,
                      .granted = m.granted,
                      .paused_until = m.paused_until,
                      .is_closed = m.is_closed};
  for (std::size_t i = 0; i < m.rates.size(); ++i) s.tokens.push_back(m.rates.available(i, now));
  return s;
}

sublimit_stats stats_of(const detail::sublimits::member& m, time_point now) {
  sublimit_stats s{.name = m.name, .tokens = {}, .held = m.occupied, .concurrency = m.capacity, .granted = m.granted};
  for (std::size_t i = 0; i < m.rates.size(); ++i) s.tokens.push_back(m.rates.available(i, now));
  return s;
}

// Functions that change a rate of a limiter, or of one of its alternatives. `field`: the name of the index in error
// texts.

void change_rate(detail::rate_set& rates, std::size_t index, time_point now, const rate& r, std::string_view field) {
  rates.set_rate(checked_index(rates, index, field), now, r);
}

void change_burst(detail::rate_set& rates, std::size_t index, time_point now, std::uint64_t burst,
                  std::string_view field, std::string_view prefix) {
  token_bucket& bucket = rates[checked_index(rates, index, field)];
  detail::check_tokens(prefix, burst);
  bucket.set_burst(now, burst);
}

}  // namespace

limiter::limiter(const net::any_io_executor& executor, const limiter_options& options)
    : limit_handle{open(executor, options, options.share ? options.share->places_ : nullptr)} {}

net::awaitable<permit> limiter::acquire(int priority) {
  return detail::wait_for<detail::permit_waiter>(admission_, priority);
}

void limiter::set_rate(std::size_t index, const canigo::rate& r) {
  admission_->change_supplies(
      [&](detail::supplies& s, time_point now) { change_rate(s.rates(), index, now, r, "limiter.set_rate: index"); });
}

void limiter::set_burst(std::size_t index, std::uint64_t burst) {
  admission_->change_supplies([&](detail::supplies& s, time_point now) {
    change_burst(s.rates(), index, now, burst, "limiter.set_burst: index", "limiter.set_burst: ");
  });
}

void limiter::set_concurrency(std::uint64_t concurrency) {
  checked_concurrency(concurrency, "limiter.set_concurrency: concurrency");
  admission_->change_supplies([=](detail::supplies& s, time_point) { s.set_capacity(concurrency); });
}

void limiter::lower_tokens(std::size_t index, std::uint64_t most) {
  admission_->change_supplies([=](detail::supplies& s, time_point now) {
    s.rates().lower(checked_index(s.rates(), index, "limiter.lower_tokens: index"), now, most);
  });
}

alternative_handle limiter::alternative(std::size_t index) {
  const std::size_t many = admission_->alternatives_count();
  if (index >= many) detail::throw_invalid("limiter.alternative: index", index, "less than " + std::to_string(many));
  return {*admission_, index};
}

alternative_handle limiter::alternative(std::string_view name) {
  std::string names;
  for (std::size_t i = 0; i < admission_->alternatives_count(); ++i) {
    const std::string_view here = admission_->name_of_alternative(i);
    if (!name.empty() && here == name) return {*admission_, i};
    if (!here.empty()) names.append(names.empty() ? "\"" : ", \"").append(here).append("\"");
  }
  detail::throw_invalid("limiter.alternative: name", '"' + std::string{name} + '"',
                        names.empty() ? "none, as no alternative has a name" : names);
}

std::string_view alternative_handle::name() const noexcept { return home_->name_of_alternative(index_); }

void alternative_handle::pause_until(time_point t) { home_->pause_alternative(index_, t, true); }

void alternative_handle::extend_pause(time_point t) { home_->pause_alternative(index_, t, false); }

void alternative_handle::close() {
  home_->change_supplies([this](detail::supplies& s, time_point) { (*s.any_of())[index_].is_closed = true; });
}

void alternative_handle::set_rate(std::size_t index, const canigo::rate& r) {
  home_->change_supplies([&](detail::supplies& s, time_point now) {
    change_rate((*s.any_of())[index_].rates, index, now, r, "alternative_handle.set_rate: index");
  });
}

void alternative_handle::set_burst(std::size_t index, std::uint64_t burst) {
  home_->change_supplies([&](detail::supplies& s, time_point now) {
    change_burst((*s.any_of())[index_].rates, index, now, burst, "alternative_handle.set_burst: index",
                 "alternative_handle.set_burst: ");
  });
}

void alternative_handle::set_concurrency(std::uint64_t concurrency) {
  checked_concurrency(concurrency, "alternative_handle.set_concurrency: concurrency");
  home_->change_supplies([&](detail::supplies& s, time_point) { (*s.any_of())[index_].capacity = concurrency; });
}

void alternative_handle::lower_tokens(std::size_t index, std::uint64_t most) {
  home_->adjust_supplies([&](detail::supplies& s, time_point now) {
    detail::rate_set& rates = (*s.any_of())[index_].rates;
    rates.lower(checked_index(rates, index, "alternative_handle.lower_tokens: index"), now, most);
  });
}

sublimit_handle limiter::sublimit(std::size_t number) {
  const std::size_t many = admission_->look([](const detail::supplies& s, const auto&...) {
    return s.named() != nullptr ? s.named()->size() : std::size_t{0};
  });
  if (number >= many) detail::throw_invalid("limiter.sublimit: number", number, "less than " + std::to_string(many));
  return {*admission_, number};
}

int limiter::add_sublimit(const sublimit_options& o, time_point since) {
  checked_concurrency(o.concurrency, "sublimit_options.concurrency");
  std::vector<std::string> units;
  buckets made = make_buckets(o.rates, "sublimit_options.rates", since, units);
  std::size_t number = 0;
  admission_->change_supplies([&](detail::supplies& s, time_point) {
    detail::sublimits* const all = s.named();
    if (all == nullptr) detail::throw_invalid("limiter.add_sublimit", o.name, "none, as the limiter has no sublimits");
    if (all->size() == detail::most_sublimits) {
      detail::throw_invalid("limiter.add_sublimit", o.name, "none, as the limiter has 256");
    }
    std::vector<std::uint8_t> unit_of_rate;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const std::size_t unit = s.units() != nullptr ? s.units()->find(unit_key{units[i].c_str()}) : 0;
      const bool is_known = s.units() != nullptr ? unit < s.units()->size() : units[i].empty();
      if (!is_known) {
        detail::throw_invalid("sublimit_options.rates[" + std::to_string(i) + "].unit", '"' + units[i] + '"',
                              s.units() != nullptr ? s.units()->listed(0) : "none, as the limiter has no units");
      }
      unit_of_rate.push_back(static_cast<std::uint8_t>(unit));
    }
    if (!s.has_units()) unit_of_rate.clear();
    number =
        all->add({.name = o.name,
                  .rates = detail::rate_set{std::move(made.rates), std::move(unit_of_rate), std::move(made.windows)},
                  .capacity = o.concurrency});
  });
  return static_cast<int>(number);
}

void sublimit_handle::set_rate(std::size_t index, const canigo::rate& r) {
  home_->change_supplies([&](detail::supplies& s, time_point now) {
    change_rate((*s.named())[number_].rates, index, now, r, "sublimit_handle.set_rate: index");
  });
}

void sublimit_handle::set_burst(std::size_t index, std::uint64_t burst) {
  home_->change_supplies([&](detail::supplies& s, time_point now) {
    change_burst((*s.named())[number_].rates, index, now, burst, "sublimit_handle.set_burst: index",
                 "sublimit_handle.set_burst: ");
  });
}

void sublimit_handle::set_concurrency(std::uint64_t concurrency) {
  checked_concurrency(concurrency, "sublimit_handle.set_concurrency: concurrency");
  home_->change_supplies([&](detail::supplies& s, time_point) { (*s.named())[number_].capacity = concurrency; });
}

wait_reason limiter::why_waiting() const { return admission_->why_waiting(); }

duration limiter::estimate(request r) const { return admission_->estimate(r); }

limiter_stats limiter::stats() const {
  limiter_stats s;
  admission_->stats(s, [&](const detail::supplies& supplies, time_point now) {
    for (std::size_t i = 0; i < supplies.rates().size(); ++i) s.tokens.push_back(supplies.rates().available(i, now));
    s.held = supplies.occupied();
    s.concurrency = supplies.capacity();
    s.binding = admission_->read_binding(now);
    s.shadow = admission_->read_shadow();
    const detail::alternatives* const any = supplies.any_of();
    for (std::size_t i = 0; any != nullptr && !any->is_hidden() && i < any->size(); ++i)
      s.alternatives.push_back(stats_of((*any)[i], now));
    const detail::sublimits* const named = supplies.named();
    for (std::size_t i = 0; named != nullptr && i < named->size(); ++i)
      s.sublimits.push_back(stats_of((*named)[i], now));
  });
  return s;
}

}  // namespace canigo
