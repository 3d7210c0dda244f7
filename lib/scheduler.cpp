#include "canigo/scheduler.hpp"

#include "canigo/error.hpp"

namespace canigo {

namespace {

detail::admission* open(const net::any_io_executor& executor, const scheduler_options& o) {
  if (o.priorities < 1 || o.priorities > 1024) detail::throw_invalid("scheduler_options.priorities", o.priorities, "1 to 1024");
  if (o.queue_limit < 1) detail::throw_invalid("scheduler_options.queue_limit", o.queue_limit, "1 or more");
  if (o.ageing <= duration::zero()) detail::throw_invalid("scheduler_options.ageing", o.ageing, "more than 0");
  if (o.on_overflow == overflow::wait) {
    detail::throw_invalid("scheduler_options.on_overflow", "wait", "reject_new, evict_oldest, evict_least_important");
  }
  const auto now = time_source::of(executor).now();
  detail::supplies supplies{{token_bucket{o.rate, o.burst, o.initial_tokens, now}}};
  return detail::admission::open(executor, std::move(supplies),
                                 {.priorities = o.priorities,
                                  .queue_limit = o.queue_limit,
                                  .on_overflow = o.on_overflow,
                                  .ageing = o.ageing});
}

}  // namespace

scheduler::scheduler(const net::any_io_executor& executor, const scheduler_options& options)
    : admission_{open(executor, options)} {}

scheduler::~scheduler() { admission_->close(); }

net::awaitable<void> scheduler::acquire(request r) {
  using detail::outcome;
  const outcome o = admission_->try_enter_in_turn(r);
  if (o == outcome::granted) co_return;
  if (o > outcome::granted) detail::throw_refusal(*admission_, r, o);

  using start = detail::start_parked<detail::plain_waiter>;
  start::room room;
  co_await detail::park<std::error_code>(start{admission_, &room, r, o == outcome::granted_by_post});
}

bool scheduler::try_acquire(request r) {
  const auto o = admission_->try_enter(r);
  if (o > detail::outcome::granted) admission_->check(r);
  return o == detail::outcome::granted;
}

void scheduler::refund(std::uint64_t tokens) {
  admission_->change_supplies([&](detail::supplies& s, time_point now) { s.refund(now, tokens); });
}

void scheduler::charge(std::uint64_t tokens) {
  admission_->change_supplies([&](detail::supplies& s, time_point now) { s.charge(now, tokens); });
}

void scheduler::set_rate(const canigo::rate& r) {
  admission_->change_supplies([&](detail::supplies& s, time_point now) { s.rates().front().set_rate(now, r); });
}

void scheduler::set_burst(std::uint64_t burst) {
  admission_->change_supplies([&](detail::supplies& s, time_point now) { s.rates().front().set_burst(now, burst); });
}

void scheduler::pause_until(time_point t) { admission_->pause_until(t); }

void scheduler::resume() { admission_->resume(); }

duration scheduler::estimate(request r) const { return admission_->estimate(r); }

scheduler_stats scheduler::stats() const {
  scheduler_stats s;
  admission_->stats(s, [&](const detail::supplies& supplies, time_point now) {
    s.tokens = supplies.rates().front().available(now);
  });
  return s;
}

void scheduler::stop() noexcept { admission_->stop(); }

net::any_io_executor scheduler::get_executor() const { return admission_->executor(); }

}  // namespace canigo
