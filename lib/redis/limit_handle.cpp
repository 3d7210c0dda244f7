#include "canigo/redis/limit_handle.hpp"

#include "ledger.hpp"

#include <asio/error.hpp>

#include <system_error>

namespace canigo::redis {
namespace {

using canigo::detail::await_operation;

/// Waits for a grant, and returns it. If the wait fails, throws an exception whose text tells the reason.
template <class Grant, class Waiter>
net::awaitable<Grant> granted(std::shared_ptr<detail::ledger> l, request r) {
  std::error_code ec;
  try {
    co_return co_await await_operation<Waiter>(l, r);
  } catch (const std::system_error& e) {
    ec = e.code();
  }
  l->fail(ec, r);
}

/// Like granted(), for a request that does not wait. Returns false, or no permit, if the request is not granted
/// immediately.
template <class Attempt, class Waiter>
net::awaitable<Attempt> granted_now(std::shared_ptr<detail::ledger> l, request r) {
  std::error_code ec;
  try {
    if constexpr (std::is_same_v<Attempt, bool>) {
      co_await await_operation<Waiter>(l, r, false);
      co_return true;
    } else {
      co_return co_await await_operation<Waiter>(l, r, false);
    }
  } catch (const std::system_error& e) {
    ec = e.code();
  }
  if (ec != net::error::would_block) l->fail(ec, r);
  co_return Attempt{};
}

}  // namespace

template <class Waiter>
limit_handle<Waiter>::~limit_handle() {
  ledger_->close();
}

template <class Waiter>
auto limit_handle<Waiter>::acquire(request r) -> net::awaitable<grant> {
  return granted<grant, Waiter>(ledger_, r);
}

template <class Waiter>
auto limit_handle<Waiter>::acquire_now(request r) -> net::awaitable<attempt> {
  return granted_now<attempt, Waiter>(ledger_, r);
}

template <class Waiter>
auto limit_handle<Waiter>::try_acquire(request r) -> attempt {
  if constexpr (std::is_void_v<grant>) {
    return ledger_->try_acquire(r, nullptr);
  } else {
    grant granted;
    return ledger_->try_acquire(r, &granted) ? attempt{std::move(granted)} : std::nullopt;
  }
}

template <class Waiter>
void limit_handle<Waiter>::pause_until(time_point t) {
  ledger_->pause_until(t);
}

template <class Waiter>
void limit_handle<Waiter>::resume() {
  ledger_->pause_until(time_point::min());
}

template <class Waiter>
limit_stats limit_handle<Waiter>::stats() const {
  return ledger_->stats();
}

template <class Waiter>
void limit_handle<Waiter>::stop() noexcept {
  ledger_->close();
}

template <class Waiter>
net::any_io_executor limit_handle<Waiter>::get_executor() const {
  return ledger_->executor();
}

template class limit_handle<detail::quota_waiter>;
template class limit_handle<detail::place_waiter>;

}  // namespace canigo::redis
