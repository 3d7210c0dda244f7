// The member functions of waiter (a waiting request) and of its deadline.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/admission/waiter.hpp"

#include <utility>

namespace canigo::detail {

waiter::limit::limit(waiter& w) noexcept
    : deadline{[](deadline& d, due why) noexcept {
        if (why == due::expired) {
          waiter& late = *static_cast<limit&>(d).owner;
          late.home_->limit_passed(late);
        }
      }},
      owner{&w} {}

void waiter::request_cancel() noexcept { home_->cancel(*this); }

const net::any_io_executor& waiter::home_executor() const noexcept { return home_->executor(); }

void waiter::let_go_of_engine() noexcept {
  if ((!at_home_ || home_->pushes()) && state_ == state::ending) home_->release_ref();
}

const net::any_io_executor& executor_of(const admission& a) noexcept { return a.executor(); }

void enter::operator()(waiter& w, bool has_memory) const noexcept {
  if (has_memory) {
    home.enter(w, wanted);
  } else {
    home.deliver(w, wanted, to_outcome(errc::not_enough_memory));
  }
}

std::uint64_t waiter::take_tokens() noexcept {
  return amounts_ != nullptr ? reinterpret_cast<std::uint64_t>(std::exchange(amounts_, nullptr)) : tokens;
}

void waiter::abandon() noexcept {
  if (outcome_ == outcome::granted && state_ == state::ending) home_->undo(*this);
  let_go_of_engine();
}

}  // namespace canigo::detail
