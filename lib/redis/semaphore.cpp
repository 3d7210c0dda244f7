#include "canigo/redis/semaphore.hpp"

#include "canigo/error.hpp"

#include "ledger.hpp"
#include "told_why.hpp"

#include <asio/error.hpp>

#include <utility>

namespace canigo::redis {
namespace {

using canigo::detail::throw_invalid;

detail::ledger_options checked(std::string_view name, const semaphore_options& o) {
  if (o.permits < 1 || o.permits > detail::most_tokens)
    throw_invalid("semaphore_options.permits", o.permits, "1 to 2^31");
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

/// The permit, or nothing if it was not there at once. Any other failure is thrown.
net::awaitable<std::optional<permit>> granted_now(std::shared_ptr<detail::ledger> l, request r,
                                                  net::awaitable<permit> grant) {
  std::error_code ec;
  try {
    co_return co_await std::move(grant);
  } catch (const std::system_error& e) {
    ec = e.code();
  }
  if (ec != net::error::would_block) l->fail(ec, r);
  co_return std::nullopt;
}

}  // namespace

semaphore::semaphore(client& c, std::string_view name, const semaphore_options& options)
    : ledger_{detail::ledger::open(c, checked(name, options))} {}

semaphore::~semaphore() { ledger_->close(); }

net::awaitable<permit> semaphore::acquire(request r) {
  return detail::told_why(ledger_, r, canigo::detail::await_operation<detail::place_waiter>(ledger_, r));
}

net::awaitable<std::optional<permit>> semaphore::acquire_now(request r) {
  return granted_now(ledger_, r, canigo::detail::await_operation<detail::place_waiter>(ledger_, r, false));
}

std::optional<permit> semaphore::try_acquire(request r) {
  permit p;
  if (!ledger_->try_acquire(r, &p)) return std::nullopt;
  return p;
}

void semaphore::resize(std::uint64_t permits) {
  if (permits < 1 || permits > detail::most_tokens) throw_invalid("semaphore.resize: permits", permits, "1 to 2^31");
  ledger_->set_permits(permits);
}

void semaphore::pause_until(time_point t) { ledger_->pause_until(t); }

void semaphore::resume() { ledger_->pause_until(time_point::min()); }

limit_stats semaphore::stats() const { return ledger_->stats(); }

void semaphore::stop() noexcept { ledger_->close(); }

net::any_io_executor semaphore::get_executor() const { return ledger_->executor(); }

}  // namespace canigo::redis
