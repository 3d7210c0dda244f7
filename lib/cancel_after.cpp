#include "canigo/cancel_after.hpp"

#include "canigo/detail/context/suspend.hpp"

#include <asio/post.hpp>

namespace canigo::detail {

operation_limit::operation_limit(time_source& time, const net::any_io_executor& executor) noexcept
    : deadline{&operation_limit::called}, time_{time}, executor_{executor} {}

void operation_limit::start(duration limit) {
  self_ = shared_from_this();
  if (!time_.arm(*this, saturating_add(time_.now(), limit))) self_.reset();
}

void operation_limit::cancel(net::cancellation_type type) {
  request_.by_cancellation(type);
  signal_.emit(type);
}

bool operation_limit::stop() noexcept {
  is_over_ = true;
  if (time_.cancel(*this)) self_.reset();
  return request_.is_of_owner();
}

void operation_limit::called(deadline& d, due why) noexcept {
  auto& l = static_cast<operation_limit&>(d);
  auto self = std::move(l.self_);
  if (why == due::shutdown) return;
  try {
    net::post(l.executor_, [self] {
      if (self->is_over_) return;
      self->request_.by_owner();
      self->signal_.emit(net::cancellation_type::terminal);
    });
  } catch (...) {
    self->start(retry_after);  // no memory just now
  }
}

}  // namespace canigo::detail
