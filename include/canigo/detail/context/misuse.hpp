#pragma once

#include "canigo/net.hpp"

#include <asio/detached.hpp>
#include <asio/execution_context.hpp>

#include <concepts>
#include <type_traits>

namespace canigo::detail {

/// Takes a value of any type.
struct any_value {
  constexpr any_value() noexcept = default;
  template <class T>
  constexpr any_value(const T&) noexcept {}
};

/// Takes a request with a field of another type, so that an overload can say so.
struct misfit_request {
  any_value priority, tokens, deadline, flow, amounts, tag, since;
};

/// A context that is taken as const, so that an overload for wrong options is never better than the one for right ones.
template <class Context>
concept any_context = std::derived_from<Context, net::execution_context>;

/// Takes the options of a scheduler, a semaphore or a pool with a field of another type.
struct misfit_options {
  any_value concurrency, permits, rate, burst, initial_tokens, priorities, queue_limit, on_overflow, timeout, retry,
      restart, observer, make, reset, check, destroy, idle_timeout, min_idle, call_timeout, ageing, shedding, slack,
      mode;
};

/// Refuses a completion token that drops the permit in the moment in which it is granted.
template <class Token>
constexpr void refuse_to_drop_permit() noexcept {
  static_assert(!std::is_same_v<std::remove_cvref_t<Token>, net::detached_t>,
                "async_acquire: detached drops the permit at once, so nothing is limited: take it with a handler");
}

/// Takes the results of any operation: for concepts that ask whether there is one.
struct any_handler {
  template <class... Results>
  void operator()(Results&&...) const noexcept {}
};

}  // namespace canigo::detail
