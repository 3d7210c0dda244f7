#include "canigo/detail/coro/abandonable.hpp"

#include "canigo/detail/admission/awaited.hpp"
#include "canigo/detail/admission/permit_grant.hpp"
#include "canigo/request.hpp"

namespace canigo::detail {

abandonable_end::abandonable_end(const net::any_io_executor& executor) : idle_{open_idle(executor)} {}

abandonable_end::~abandonable_end() { idle_->close(); }

net::awaitable<std::error_code> abandonable_end::wait_until(time_point t) {
  std::error_code error;
  co_await try_to_wait_for<plain_waiter>(idle_, request{.deadline = t}, &error);
  // deadline_unreachable means that `t` had passed before the wait began. For the caller that is a timeout.
  co_return error == errc::deadline_unreachable ? make_error_code(errc::timed_out) : error;
}

abandonable_end::running::running(std::shared_ptr<abandonable_end> end)
    : end_{std::move(end)}, inside_{occupy_place(*end_->idle_).value()} {}

// The flag is set before the slot `inside_` is released. The release resumes waiting callers, and they must see the
// flag.
abandonable_end::running::~running() {
  if (inside_) end_->has_ended_.store(true, std::memory_order_release);
}

}  // namespace canigo::detail
