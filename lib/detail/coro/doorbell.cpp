#include "canigo/detail/coro/doorbell.hpp"

#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/context/timed_wait.hpp"
#include "canigo/time_source.hpp"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// The wait of a coroutine at a doorbell: until ring() is called, or until a given instant.
class doorbell::visitor : public timed_wait {
 public:
  using results = std::tuple<>;

  explicit visitor(doorbell& bell) noexcept : timed_wait{bell.time_}, bell_{&bell} {}

  void begin(time_point t) noexcept {
    bell_->visitor_ = this;
    wait_until(t);
  }
  void end_if_it_waits() noexcept {
    if (take_back()) end();
  }

  results take_results() noexcept {
    bell_->visitor_ = nullptr;
    return {};
  }
  void abandon() noexcept {
    std::ignore = take_back();
    bell_->visitor_ = nullptr;
  }
  void request_cancel() noexcept { bell_->cancelled(); }
  const net::any_io_executor& home_executor() const noexcept { return bell_->strand_; }

 protected:
  ~visitor() = default;

 private:
  doorbell* bell_;
};

doorbell::doorbell(const net::any_io_executor& strand) : strand_{strand}, time_{time_source::of(strand)} {}

void doorbell::ring() noexcept {
  if (visitor_ == nullptr) {
    is_rung_ = true;
  } else {
    visitor_->end_if_it_waits();
  }
}

net::awaitable<void> doorbell::wait_until(time_point t) {
  frame_room<256> room;
  if (std::exchange(is_rung_, false)) t = time_point::min();
  co_await park<>([this, &room, t](auto&& handler) noexcept {
    std::decay_t<decltype(handler)> h(std::forward<decltype(handler)>(handler));
    auto* v = make_suspended_in<visitor>(room, h, *this);
    time_point until = t;
    try {
      v->allow_cancel();
    } catch (...) {
      // If there is no memory, this wait can't be cancelled. So it lasts at most retry_after, and then the coroutine
      // waits again.
      until = std::min(t, saturating_add(time_.now(), retry_after));
    }
    v->begin(until);
  });
}

}  // namespace canigo::detail
