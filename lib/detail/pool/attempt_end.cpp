#include "canigo/detail/pool/attempt_end.hpp"

#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <asio/error.hpp>

#include <optional>
#include <system_error>

namespace canigo::detail {

void attempt_end::weigh_error(const restart_policy& restart, const task_life* life) noexcept {
  bool cancelled_itself = false;
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& e) {
    cancelled_itself = cause == task_life::cause::none && e.code() == net::error::operation_aborted;
  } catch (const fatal_error&) {
    is_fatal = restart.is_fatal == nullptr;
  } catch (...) {
  }
  try {
    if (restart.is_fatal != nullptr) is_fatal = restart.is_fatal(error);
    const task_state s = task_life::state_after_throw(cause);
    if (life == nullptr || life->is_last_attempt() || s == task_state::cancelled) return;
    const auto e = s == task_state::failed ? error : to_exception(errc::timed_out);
    std::optional<duration> delay;
    if (life->retry.retry_if) {
      delay = life->retry.retry_if(e);
    } else if (!cancelled_itself) {
      delay = duration::zero();
    }
    may_retry = delay.has_value();
    least_delay = delay.value_or(duration::zero());
  } catch (...) {  // a predicate that throws counts as one that returns false
  }
}

}  // namespace canigo::detail
