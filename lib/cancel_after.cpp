#include "canigo/cancel_after.hpp"

#include "canigo/detail/context/suspend.hpp"

#include <asio/post.hpp>

namespace canigo::detail {

timed_operation::timed_operation(time_source& time, const net::any_io_executor& executor) noexcept
    : time_{time}, executor_{executor}, alarm_{time, [](timed_operation& o) { o.time_is_up(); }} {}

void timed_operation::start(duration limit) noexcept { alarm_.set(saturating_add(time_.now(), limit), *this); }

void timed_operation::cancel(net::cancellation_type type) {
  request_.by_cancellation(type);
  signal_.emit(type);
}

bool timed_operation::stop() noexcept {
  is_over_ = true;
  std::ignore = alarm_.disarm();
  return request_.is_of_owner();
}

void timed_operation::time_is_up() {
  net::post(executor_, [self = shared_from_this()] {
    if (self->is_over_) return;
    self->request_.by_owner();
    self->signal_.emit(net::cancellation_type::terminal);
  });
}

}  // namespace canigo::detail
