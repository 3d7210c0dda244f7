#include "canigo/scheduler.hpp"

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/admission/awaited.hpp"
#include "canigo/error.hpp"

#include <utility>

namespace canigo {

namespace {

detail::admission* open(const net::any_io_executor& executor, const scheduler_options& o) {
  detail::check_tokens("scheduler_options.", o.burst, o.initial_tokens);
  detail::check_window("scheduler_options.", o.window, o.rate, o.burst);
  const auto now = time_source::of(executor).now();
  detail::rate_windows windows;
  detail::add_window(windows, 1, o.window, o.rate);
  detail::supplies supplies{{token_bucket{o.rate, o.burst, o.initial_tokens, now}},
                            0,
                            detail::supplies::occupancy::none,
                            nullptr,
                            nullptr,
                            std::move(windows)};
  return detail::admission::open(executor, std::move(supplies),
                                 detail::checked("scheduler_options", {.priorities = o.priorities,
                                                                       .queue_limit = o.queue_limit,
                                                                       .on_overflow = o.on_overflow,
                                                                       .ageing = o.ageing,
                                                                       .shedding = o.shedding,
                                                                       .slack = o.slack,
                                                                       .mode = o.mode,
                                                                       .name = detail::make_name(o.name)}));
}

}  // namespace

scheduler::scheduler(const net::any_io_executor& executor, const scheduler_options& options)
    : limit_handle{open(executor, options)} {}

net::awaitable<void> scheduler::acquire(int priority) {
  return detail::wait_for<detail::plain_waiter>(admission_, priority);
}

void scheduler::refund(std::uint64_t tokens) {
  admission_->change_supplies([&](detail::supplies& s, time_point now) { s.rates().refund(now, tokens); });
}

void scheduler::charge(std::uint64_t tokens) {
  admission_->change_supplies([&](detail::supplies& s, time_point now) { s.rates().charge(now, tokens); });
}

void scheduler::set_rate(const canigo::rate& r) {
  admission_->change_supplies([&](detail::supplies& s, time_point now) { s.rates().set_rate(0, now, r); });
}

void scheduler::set_burst(std::uint64_t burst) {
  detail::check_tokens("scheduler.set_burst: ", burst);
  admission_->change_supplies([&](detail::supplies& s, time_point now) { s.rates().front().set_burst(now, burst); });
}

duration scheduler::estimate(request r) const { return admission_->estimate(r); }

scheduler_stats scheduler::stats() const {
  scheduler_stats s;
  admission_->stats(s, [&](const detail::supplies& supplies, time_point now) {
    s.tokens = supplies.rates().available(0, now);
    s.shadow = admission_->read_shadow();
  });
  return s;
}

}  // namespace canigo
