#include "canigo/redis/semaphore.hpp"

#include "canigo/error.hpp"

#include "ledger.hpp"

#include <asio/use_awaitable.hpp>

namespace canigo::redis {
namespace {

using canigo::detail::throw_invalid;

detail::ledger_options checked(std::string_view name, const semaphore_options& o) {
  constexpr std::uint64_t most = std::uint64_t{1} << 31;
  if (o.permits < 1 || o.permits > most) throw_invalid("semaphore_options.permits", o.permits, "1 to 2^31");
  if (o.lease < std::chrono::milliseconds{10} || o.lease > std::chrono::hours{24}) {
    throw_invalid("semaphore_options.lease", o.lease, "10ms to 1d");
  }
  return {.kind = "s",
          .name = std::string{name},
          .space = o.space,
          .permits = o.permits,
          .rate = std::nullopt,
          .lease = o.lease,
          .priorities = o.priorities,
          .queue_limit = o.queue_limit,
          .give_up = o.give_up,
          .quarantine = o.quarantine};
}

}  // namespace

semaphore::semaphore(client& c, std::string_view name, const semaphore_options& options)
    : ledger_{detail::ledger::open(c, checked(name, options))} {}

semaphore::~semaphore() { ledger_->close(); }

net::awaitable<permit> semaphore::acquire(request r) {
  auto pending = async_acquire(r, net::use_awaitable);
  co_return co_await std::move(pending);
}

limit_stats semaphore::stats() const { return ledger_->stats(); }

void semaphore::stop() noexcept { ledger_->close(); }

net::any_io_executor semaphore::get_executor() const { return ledger_->executor(); }

}  // namespace canigo::redis
