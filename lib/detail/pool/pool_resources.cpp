// How a worker looks after its resource.

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/error.hpp"

#include <asio/this_coro.hpp>

#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

namespace canigo::detail {

pool_core::leaver::leaver(pool_core& c) noexcept : core_{c} {
  const change held{core_};
  core_.hold_loop();
}

pool_core::leaver::~leaver() {
  const change held{core_};
  core_.release_loop();
}

/// The worker turns to its resource, and away from it. Under the lock.
void pool_core::begin_care(pool_worker& w) noexcept {
  crew_.repair(w);
  hold_loop();
  begin_call(w);
}

void pool_core::end_care(pool_worker& w) noexcept {
  w.rest_.disarm();
  w.is_overdue_ = false;
  crew_.recover(w);
  release_loop();
}

/// Of a function of the user's, which has its own time. Under the lock.
void pool_core::begin_call(pool_worker& w) noexcept {
  ++w.serial_;
  w.is_overdue_ = false;
  if (resources_->call_timeout != duration::max()) {
    w.rest_.arm(saturating_add(time_->now(), resources_->call_timeout));
  } else {
    w.rest_.disarm();
  }
}

/// In a handler of what such a function has thrown: that, or that its time was up.
std::exception_ptr pool_core::what_failed(pool_worker& w, const char* call) noexcept {
  {
    const std::lock_guard lock{mutex_};
    if (!w.is_overdue_) return std::current_exception();
  }
  try {
    throw std::system_error{make_error_code(errc::timed_out), call};
  } catch (...) {
    return std::current_exception();
  }
}

/// Ends an operation that used the resource. True: the resource is to be mended.
bool pool_core::end_with_resource(pool_worker& w, pool_task& t) noexcept {
  w.resource_is_proven_ = false;
  const bool has_failed = w.error_ != nullptr;
  examine(w, t);
  bool mends = false;
  bool release = false;
  {
    const change c{*this};
    coarse_now_ = time_->now();
    release = finish(w, t);
    mends = has_failed && (w.is_fatal_ || resources_->has_reset);
    if (mends) begin_care(w);
  }
  if (release) t.release_ref();
  return mends;
}

net::awaitable<void> pool_core::evict_resource(pool_worker& w) {
  co_await drop_resource(w);
  const change c{*this};
  w.evict_ = false;
  end_care(w);
}

net::awaitable<void> pool_core::prepare_resource(pool_worker& w) {
  std::exception_ptr e;
  const bool is_new = w.resource_ == nullptr;
  try {
    if (is_new) {
      w.resource_ = co_await resources_->make(w.index_);
    } else if (!co_await resources_->check(w.resource_)) {
      e = std::make_exception_ptr(fatal_error{"the check of a resource failed"});
    }
  } catch (...) {
    e = what_failed(w, is_new ? "resource_pool_options.make" : "resource_pool_options.check");
  }
  co_await net::this_coro::reset_cancellation_state();
  co_await net::this_coro::throw_if_cancelled(true);
  if (e && w.resource_ != nullptr) co_await drop_resource(w);
  const change c{*this};
  end_care(w);
  if (is_new && !e) ++made_;
  w.resource_is_proven_ = !e;
  if (e && mode_ <= stop_mode::drain) restarted(w, e);
}

/// After an operation failed.
net::awaitable<void> pool_core::mend_resource(pool_worker& w, std::exception_ptr cause, bool is_broken) {
  if (!is_broken) {
    try {
      co_await resources_->reset(w.resource_);
    } catch (...) {
      cause = what_failed(w, "resource_pool_options.reset");
      is_broken = true;
    }
    co_await net::this_coro::reset_cancellation_state();
    co_await net::this_coro::throw_if_cancelled(true);
  }
  if (is_broken) co_await drop_resource(w);
  const change c{*this};
  end_care(w);
  if (is_broken && mode_ <= stop_mode::drain) restarted(w, cause);
}

net::awaitable<void> pool_core::drop_resource(pool_worker& w) {
  {
    const change c{*this};
    if (!w.evict_) --made_;
    begin_call(w);
  }
  void* r = std::exchange(w.resource_, nullptr);
  try {
    co_await resources_->destroy(r);
  } catch (...) {  // it is gone in any case
  }
  co_await net::this_coro::reset_cancellation_state();
  co_await net::this_coro::throw_if_cancelled(true);
  const change c{*this};
  w.rest_.disarm();
}

}  // namespace canigo::detail
