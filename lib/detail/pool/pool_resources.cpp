// Workers that own a resource.

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/error.hpp"

#include <asio/this_coro.hpp>

#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

namespace canigo::detail {

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

pool_core::step pool_core::next_step(pool_worker& w, pool_task*& t) noexcept {
  const change c{*this};
  coarse_now_ = time_->now();
  if (!w.is_retired_ && (w.is(pool_worker::state::leaving) || must_leave())) leave(w);
  if (w.is_retired_) return step::leave;  // maybe since it was about to sleep, and whatever is wanted now
  if (w.evict_) {
    begin_care(w);
    return step::evict;
  }
  if (w.is(pool_worker::state::resting) || backlog_.queued().empty()) return step::rest;
  if (w.resource_ == nullptr || (resources_->has_check && !w.resource_is_proven_)) {
    begin_care(w);
    return step::prepare;
  }
  t = take(w);
  return step::work;
}

net::awaitable<void> pool_core::main_with_resource(life l) {
  /// Who leaves is no longer seen to by gone().
  struct until_it_is_gone {
    explicit until_it_is_gone(pool_core& c) noexcept : core{c} {
      const change held{core};
      core.hold_loop();
    }
    until_it_is_gone(const until_it_is_gone&) = delete;
    until_it_is_gone& operator=(const until_it_is_gone&) = delete;
    ~until_it_is_gone() {
      const change held{core};
      core.release_loop();
    }
    pool_core& core;
  };
  pool_worker& w = l.worker();
  for (;;) {
    pool_task* t = nullptr;
    switch (next_step(w, t)) {
      case step::leave:
        if (w.resource_ != nullptr) {
          const until_it_is_gone reason{*this};
          co_await drop_resource(w);
        }
        co_return;
      case step::evict:
        co_await drop_resource(w);
        {
          const change c{*this};
          w.evict_ = false;
          end_care(w);
        }
        break;
      case step::prepare:
        co_await prepare_resource(w);
        break;
      case step::rest:
        co_await park(w);
        break;
      case step::work:
        if (t->is_long()) {
          if (options_.observer != nullptr) options_.observer->attempt_started(event_of(*t));
          w.strand_->begins(w.mark());
          try {
            co_await t->start(w.context_);
          } catch (...) {
            caught(w, *t);
          }
          co_await net::this_coro::reset_cancellation_state();
          co_await net::this_coro::throw_if_cancelled(true);
        } else {
          call(w, *t);
        }
        w.resource_is_proven_ = false;
        const std::exception_ptr cause = w.error_;
        examine(w, *t);
        const bool is_broken = w.is_fatal_;
        bool release = false;
        {
          const change c{*this};
          coarse_now_ = time_->now();
          release = finish(w, *t);
          if (cause && (is_broken || resources_->has_reset)) begin_care(w);
        }
        if (release) t->release_ref();
        if (cause && (is_broken || resources_->has_reset)) co_await mend_resource(w, cause, is_broken);
        break;
    }
  }
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
