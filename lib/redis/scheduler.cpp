#include "canigo/redis/scheduler.hpp"

#include "canigo/error.hpp"

#include "ledger.hpp"

namespace canigo::redis {
namespace {

using canigo::detail::throw_invalid;

detail::ledger_options checked(std::string_view name, const scheduler_options& o) {
  detail::checked_tokens("scheduler_options.burst", o.burst, 1);
  if (o.horizon < duration::zero() || o.horizon > std::chrono::minutes{1}) {
    throw_invalid("scheduler_options.horizon", o.horizon, "0 to 1 min");
  }
  detail::check(o.on_failure, "scheduler_options.on_failure");
  return {.kind = "r",
          .name = std::string{name},
          .space = o.space,
          .rates = {{.rate = o.rate, .burst = o.burst}},
          .lease = detail::session_without_permits,
          .priorities = o.priorities,
          .queue_limit = o.queue_limit,
          .on_overflow = o.on_overflow,
          .give_up = o.give_up,
          .on_failure = o.on_failure,
          .horizon = o.horizon};
}

std::int64_t chargeable(std::string_view field, std::uint64_t tokens) {
  return static_cast<std::int64_t>(detail::checked_tokens(field, tokens, 0));
}

}  // namespace

scheduler::scheduler(client& c, std::string_view name, const scheduler_options& options)
    : limit_handle{detail::ledger::open(c, checked(name, options))} {}

void scheduler::refund(std::uint64_t tokens) { ledger_->charge(-chargeable("scheduler.refund: tokens", tokens)); }

void scheduler::charge(std::uint64_t tokens) { ledger_->charge(chargeable("scheduler.charge: tokens", tokens)); }

void scheduler::set_rate(const canigo::rate& r) { ledger_->set_rate(0, r); }

void scheduler::set_burst(std::uint64_t burst) { ledger_->set_burst(0, burst); }

duration scheduler::estimate(request r) const { return ledger_->estimate(r); }

}  // namespace canigo::redis
