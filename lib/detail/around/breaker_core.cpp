#include "canigo/detail/around/breaker_core.hpp"

#include "canigo/error.hpp"

#include <mutex>

namespace canigo::detail {

breaker_core* breaker_core::open(const net::any_io_executor& executor, const circuit_breaker_options& options) {
  return new breaker_core{executor, options};
}

breaker_core::breaker_core(const net::any_io_executor& executor, const circuit_breaker_options& o)
    : counted_member{executor},
      circuit_{o, clock()},
      slow_{o.slow},
      failed_if_{o.failed_if != nullptr ? o.failed_if : &is_failure_of_callee},
      observer_{o.observer},
      mode_{o.mode},
      name_{printable(o.name)} {
  join();
}

void breaker_core::end_with_context() noexcept {
  const std::lock_guard lock{mutex_};
  context_gone_ = true;
  let_go_of_context();
}

breaker_core::entry breaker_core::enter() noexcept {
  const time_point now = clock();
  const telling t{*this};
  const auto epoch = circuit_.try_enter(now);
  if (!epoch && mode_ == enforcement::enforce) {
    ++counts_.refused;
    return {false, 0, now, circuit_.open_for(now)};
  }
  if (!epoch) ++counts_.would_refuse;
  add_ref();
  return {true, epoch.value_or(0), now, {}};
}

void breaker_core::leave(circuit::epoch e, time_point since, end how) noexcept {
  const time_point now = clock();
  {
    const telling t{*this};
    if (how == end::unreported) {
      ++counts_.unreported;
      circuit_.leave(e);
    } else {
      const bool failed = how == end::failed;
      const bool slow = time_between(since, now) > slow_;
      ++(failed ? counts_.failed : counts_.succeeded);
      counts_.slow += slow ? 1 : 0;
      circuit_.report(e, failed, slow, now);
    }
  }
  release_ref();
}

void breaker_core::set_mode(enforcement mode) noexcept {
  const std::lock_guard lock{mutex_};
  mode_ = mode;
}

/// Reports the last change of state to the observer. Call it with the lock held. It releases the lock before it calls
/// the observer.
void breaker_core::tell() noexcept {
  const circuit_change change = circuit_.last_change();
  if (change.to == circuit_state::open) ++counts_.opened;
  mutex_.unlock();
  if (observer_ != nullptr) observer_->state_changed(change);
}

}  // namespace canigo::detail
