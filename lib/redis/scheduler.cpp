#include "canigo/redis/scheduler.hpp"

#include "canigo/error.hpp"

#include "ledger.hpp"

#include <asio/use_awaitable.hpp>

namespace canigo::redis {
namespace {

using canigo::detail::throw_invalid;

// A session without a lease to renew only has a place in the queue.
constexpr duration session = std::chrono::seconds{10};

detail::ledger_options checked(std::string_view name, const scheduler_options& o) {
  constexpr std::uint64_t most = std::uint64_t{1} << 31;
  if (o.burst < 1 || o.burst > most) throw_invalid("scheduler_options.burst", o.burst, "1 to 2^31");
  if (o.on_failure.share() < 0 || o.on_failure.share() > 1 ||
      (o.on_failure.what() == failure_mode::kind::local && !(o.on_failure.share() > 0))) {
    throw_invalid("scheduler_options.on_failure: share", o.on_failure.share(), "more than 0, up to 1");
  }
  return {.kind = "r",
          .name = std::string{name},
          .space = o.space,
          .rate = o.rate,
          .burst = o.burst,
          .lease = session,
          .priorities = o.priorities,
          .queue_limit = o.queue_limit,
          .give_up = o.give_up,
          .on_failure = o.on_failure};
}

}  // namespace

scheduler::scheduler(client& c, std::string_view name, const scheduler_options& options)
    : ledger_{detail::ledger::open(c, checked(name, options))} {}

scheduler::~scheduler() { ledger_->close(); }

net::awaitable<void> scheduler::acquire(request r) {
  auto pending = async_acquire(r, net::use_awaitable);
  co_await std::move(pending);
}

limit_stats scheduler::stats() const { return ledger_->stats(); }

void scheduler::stop() noexcept { ledger_->close(); }

net::any_io_executor scheduler::get_executor() const { return ledger_->executor(); }

}  // namespace canigo::redis
