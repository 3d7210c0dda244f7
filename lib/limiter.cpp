#include "canigo/limiter.hpp"

#include "canigo/detail/admission/awaited.hpp"
#include "canigo/detail/admission/permit_grant.hpp"
#include "canigo/detail/queue/flow_ceiling.hpp"
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

detail::admission* open(const net::any_io_executor& executor, const limiter_options& o,
                        std::shared_ptr<detail::shared_places> shared) {
  if (o.rates.size() > most_rates) detail::throw_invalid("limiter_options.rates.size()", o.rates.size(), "0 to 16");
  if (o.rates.empty() && o.concurrency == unlimited && !o.share) {
    detail::throw_invalid("limiter_options.rates.size()", o.rates.size(), "1 to 16, or 0 with a concurrency or share");
  }
  if (o.share && o.mode == enforcement::shadow) {
    detail::throw_invalid("limiter_options.mode", "shadow", "enforce, because places are shared");
  }
  const auto now = time_source::of(executor).now();
  std::vector<token_bucket> buckets;
  std::vector<std::string> units;
  detail::rate_windows windows;
  buckets.reserve(o.rates.size());
  for (const rate_limit& l : o.rates) {
    const std::string field = "limiter_options.rates[" + std::to_string(buckets.size()) + "].";
    detail::check_tokens(field, l.burst, l.initial_tokens);
    detail::check_window(field, l.window, l.rate, l.burst);
    buckets.emplace_back(l.rate, l.burst, l.initial_tokens, now);
    detail::add_window(windows, buckets.size(), l.window, l.rate);
    units.push_back(l.unit);
  }
  std::shared_ptr<const detail::unit_table> table;
  if (std::ranges::any_of(units, [](const std::string& name) { return !name.empty(); })) {
    table = std::make_shared<const detail::unit_table>(units, "limiter_options.rates");
  }
  detail::supplies supplies{std::move(buckets),
                            checked_concurrency(o.concurrency, "limiter_options.concurrency"),
                            detail::supplies::occupancy::one,
                            std::move(shared),
                            std::move(table),
                            std::move(windows)};
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

std::size_t checked_index(const detail::supplies& s, std::size_t index, std::string_view field) {
  if (index >= s.rates().size()) {
    detail::throw_invalid(field, index, "less than " + std::to_string(s.rates().size()));
  }
  return index;
}

}  // namespace

limiter::limiter(const net::any_io_executor& executor, const limiter_options& options)
    : limit_handle{open(executor, options, options.share ? options.share->places_ : nullptr)} {}

net::awaitable<permit> limiter::acquire(int priority) {
  return detail::wait_for<detail::permit_waiter>(admission_, priority);
}

void limiter::set_rate(std::size_t index, const canigo::rate& r) {
  admission_->change_supplies([&](detail::supplies& s, time_point now) {
    s.rates().set_rate(checked_index(s, index, "limiter.set_rate: index"), now, r);
  });
}

void limiter::set_burst(std::size_t index, std::uint64_t burst) {
  admission_->change_supplies([&](detail::supplies& s, time_point now) {
    token_bucket& bucket = s.rates()[checked_index(s, index, "limiter.set_burst: index")];
    detail::check_tokens("limiter.set_burst: ", burst);
    bucket.set_burst(now, burst);
  });
}

void limiter::set_concurrency(std::uint64_t concurrency) {
  checked_concurrency(concurrency, "limiter.set_concurrency: concurrency");
  admission_->change_supplies([=](detail::supplies& s, time_point) { s.set_capacity(concurrency); });
}

void limiter::lower_tokens(std::size_t index, std::uint64_t most) {
  admission_->change_supplies([=](detail::supplies& s, time_point now) {
    s.rates().lower(checked_index(s, index, "limiter.lower_tokens: index"), now, most);
  });
}

wait_reason limiter::why_waiting() const {
  return admission_->look([](const detail::supplies& s, const detail::demand* wanted, time_point paused, time_point now,
                             const detail::flow_ceiling* held_by) {
    if (wanted == nullptr) return wait_reason{};
    if (now < paused) return wait_reason{.binds = wait_reason::cause::paused, .until = paused};
    if (held_by == nullptr) return s.what_binds(now, *wanted);
    return held_by->what_binds(now, *wanted, s.places_for(wanted->tokens));
  });
}

duration limiter::estimate(request r) const { return admission_->estimate(r); }

limiter_stats limiter::stats() const {
  limiter_stats s;
  admission_->stats(s, [&](const detail::supplies& supplies, time_point now) {
    for (std::size_t i = 0; i < supplies.rates().size(); ++i) s.tokens.push_back(supplies.rates().available(i, now));
    s.held = supplies.occupied();
    s.concurrency = supplies.capacity();
    s.binding = admission_->read_binding(now);
    s.shadow = admission_->read_shadow();
  });
  return s;
}

}  // namespace canigo
