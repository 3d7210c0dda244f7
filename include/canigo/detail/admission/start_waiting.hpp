#pragma once

#include "canigo/detail/admission/waiter.hpp"
#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/net.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/associated_executor.hpp>

#include <type_traits>
#include <utility>

namespace canigo::detail {

/// Lets a made waiter wait for `wanted`.
struct enter {
  admission& home;
  const request& wanted;
  void operator()(waiter& w, bool has_memory) const noexcept;
};

const net::any_io_executor& executor_of(const admission& a) noexcept;

/// Initiates a wait for a caller that came with a completion token.
template <class Waiter>
struct start_waiting {
  admission* home;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return executor_of(*home); }

  template <class Handler>
  void operator()(Handler&& handler, const request& r) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    const net::any_io_executor& own = executor_of(*home);
    const bool at_home = handler_completes_at<decltype(h)>(own, net::get_associated_executor(h, own));
    constexpr bool holds_work = !has_own_executor<decltype(h)>;
    if (r.deadline == time_point::max()) {
      initiate<Waiter>(h, own, enter{*home, r}, *home, at_home, holds_work);
    } else {
      initiate<limited_waiter<Waiter>>(h, own, enter{*home, r}, *home, at_home, holds_work);
    }
  }
};

}  // namespace canigo::detail
