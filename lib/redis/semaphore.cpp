#include "canigo/redis/semaphore.hpp"

#include "canigo/error.hpp"

#include "ledger.hpp"

namespace canigo::redis {
namespace {

using canigo::detail::throw_invalid;

detail::ledger_options checked(std::string_view name, const semaphore_options& o) {
  detail::checked_tokens("semaphore_options.permits", o.permits, 1);
  if (o.lease < std::chrono::milliseconds{10} || o.lease > std::chrono::hours{24}) {
    throw_invalid("semaphore_options.lease", o.lease, "10ms to 1d");
  }
  if (o.horizon < duration::zero() || o.horizon > o.lease) {
    throw_invalid("semaphore_options.horizon", o.horizon, "0 to the lease");
  }
  return {.kind = "s",
          .name = std::string{name},
          .space = o.space,
          .permits = o.permits,
          .lease = o.lease,
          .priorities = o.priorities,
          .queue_limit = o.queue_limit,
          .on_overflow = o.on_overflow,
          .give_up = o.give_up,
          .quarantine = o.quarantine,
          .on_failure = failure_mode::closed(),
          .horizon = o.horizon};
}

}  // namespace

semaphore::semaphore(client& c, std::string_view name, const semaphore_options& options)
    : limit_handle{detail::ledger::open(c, checked(name, options))} {}

void semaphore::resize(std::uint64_t permits) {
  ledger_->set_permits(detail::checked_tokens("semaphore.resize: permits", permits, 1));
}

}  // namespace canigo::redis
