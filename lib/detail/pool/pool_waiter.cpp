#include "canigo/detail/pool/pool_waiter.hpp"

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_worker.hpp"
#include "canigo/detail/pool/worker_strand.hpp"

#include <exception>

namespace canigo::detail {

void pool_waiter::request_cancel() noexcept { home_->cancel_wait(*this); }

const net::any_io_executor& pool_waiter::home_executor() const noexcept { return home_->executor(); }

int pool_waiter::take_code() noexcept {
  if (!at_home_ && state_ == state::ending) home_->release_ref();
  state_ = state::fresh;
  return code_;
}

void pool_waiter::abandon() noexcept { take_code(); }

std::error_code pool_waiter::take_error() noexcept {
  const int code = take_code();
  return code == pool_task::no_code ? std::error_code{} : pool_task::to_error_code(code);
}

parked_waiter::results parked_waiter::take_results() noexcept { return {take_error()}; }

/// Returns the exception of a failed task. If there is no memory for the exception's text, it is a bad_alloc.
std::exception_ptr task_waiter::take_failure() noexcept {
  const std::error_code e = take_error();
  if (!e) return wanted_->failure();
  try {
    throw std::system_error{e};
  } catch (...) {
    return std::current_exception();
  }
}

void pool_waiter::find_worker(const net::any_io_executor& executor) noexcept {
  const auto [owner, home, operation] = worker_strand::mark_of(executor);
  if (owner == nullptr || home != home_) return;
  auto* w = static_cast<pool_worker*>(const_cast<void*>(owner));
  // A wait blocks its worker only if the worker's current operation makes the wait. Work that an earlier operation has
  // left on the strand does not block the worker. This code runs on the strand, so the current operation can't change
  // meanwhile.
  const bool is_at_work = w->current_ != nullptr && w->current_->is_long();
  if (is_at_work && operation == w->mark()) comes_from(*w);
}

}  // namespace canigo::detail
