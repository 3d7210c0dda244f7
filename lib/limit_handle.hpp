#pragma once

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/admission/awaited.hpp"
#include "canigo/limit_handle.hpp"

#include <type_traits>

// The member functions of limit_handle. Each of its three instantiations is compiled in its own source file. If g++
// compiles two instantiations in one file, a request that need not wait takes 6 % longer.

namespace canigo {

template <class Waiter>
limit_handle<Waiter>::~limit_handle() {
  admission_->close();
}

template <class Waiter>
detail::flow_host& limit_handle<Waiter>::flows() const noexcept {
  return *admission_;
}

template <class Waiter>
auto limit_handle<Waiter>::acquire(request r) -> net::awaitable<grant> {
  return detail::wait_for<Waiter>(admission_, r);
}

template <class Waiter>
auto limit_handle<Waiter>::acquire() -> net::awaitable<grant> {
  return detail::wait_for<Waiter>(admission_, 0);
}

template <class Waiter>
auto limit_handle<Waiter>::acquire(request r, std::error_code& error) -> net::awaitable<grant> {
  return detail::try_to_wait_for<Waiter>(admission_, r, &error);
}

template <class Waiter>
auto limit_handle<Waiter>::try_acquire(const request& r) -> attempt {
  const auto o = admission_->try_enter(r);
  if (o > detail::outcome::granted) admission_->check(r);
  if constexpr (std::is_void_v<grant>) {
    return o == detail::outcome::granted;
  } else {
    if (o != detail::outcome::granted) return std::nullopt;
    return Waiter::granted(*admission_, r);
  }
}

template <class Waiter>
auto limit_handle<Waiter>::try_acquire() -> attempt {
  const bool is_granted = admission_->try_enter(0) == detail::outcome::granted;
  if constexpr (std::is_void_v<grant>) {
    return is_granted;
  } else {
    if (!is_granted) return std::nullopt;
    return Waiter::granted(*admission_);
  }
}

template <class Waiter>
void limit_handle<Waiter>::pause_until(time_point t) {
  admission_->pause_until(t);
}

template <class Waiter>
void limit_handle<Waiter>::extend_pause(time_point t) {
  admission_->pause_until(t, false);
}

template <class Waiter>
void limit_handle<Waiter>::set_mode(enforcement mode) {
  admission_->set_mode(mode, "set_mode: mode");
}

template <class Waiter>
enforcement limit_handle<Waiter>::mode() const noexcept {
  return admission_->mode();
}

template <class Waiter>
void limit_handle<Waiter>::resume() {
  admission_->resume();
}

template <class Waiter>
std::vector<waiting_request> limit_handle<Waiter>::waiting(std::size_t most) const {
  return admission_->list(most);
}

template <class Waiter>
void limit_handle<Waiter>::stop() noexcept {
  admission_->stop();
}

template <class Waiter>
net::any_io_executor limit_handle<Waiter>::get_executor() const {
  return admission_->executor();
}

}  // namespace canigo
