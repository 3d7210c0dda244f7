#pragma once

#include "canigo/net.hpp"

#include <asio/detached.hpp>
#include <asio/execution_context.hpp>

#include <concepts>
#include <type_traits>

namespace canigo {
class rate;
}  // namespace canigo

namespace canigo::detail {

/// Any value converts to this type, and so does a list such as `{10, 3s}`.
struct any_value {
  constexpr any_value() noexcept = default;
  template <class T>
  constexpr any_value(const T&) noexcept {}
  template <class T, class U>
  constexpr any_value(const T&, const U&) noexcept {}
};

/// Has the fields of a request's options, but each field takes a value of any type. An overload with this parameter
/// gets requests with a field of the wrong type, and reports the mistake at compile time.
struct misfit_request {
  any_value priority, tokens, deadline, flow, amounts, tag, since;
};

/// An execution context. Overloads for invalid options take it as const, so that the compiler prefers the valid
/// overload.
template <class Context>
concept any_context = std::derived_from<Context, net::execution_context>;

/// Has the fields of the options of a scheduler, a semaphore or a pool, but each field takes a value of any type. An
/// overload with this parameter reports a wrong field, or a field of the wrong type, at compile time.
struct misfit_options {
  any_value concurrency, permits, rate, burst, initial_tokens, priorities, queue_limit, on_overflow, timeout, retry,
      restart, observer, make, reset, check, destroy, idle_timeout, min_idle, call_timeout, ageing, shedding, slack,
      mode;
};

/// Has the fields of a limiter's options, and also fields that callers write by mistake, such as `rate` instead of
/// `rates`. Each field takes a value of any type. An overload with this parameter reports a wrong field, or a field of
/// the wrong type, at compile time.
struct misfit_limiter_options {
  any_value rate, burst, initial_tokens, rates, permits, concurrency, share, priorities, queue_limit, on_overflow,
      ageing, shedding, slack, mode;
};

/// Has the fields of a channel's options, and also fields that a channel does not have, such as `permits`. Each field
/// takes a value of any type. An overload with this parameter reports a wrong field, or a field of the wrong type, at
/// compile time.
struct misfit_channel_options {
  any_value capacity, bytes, size_of, shared, reserved_capacity, reserved_bytes, permits, concurrency, rate, rates,
      burst, priorities, queue_limit, on_overflow, ageing, name;
};

/// A plain value, such as a number or a rate, that is passed instead of an options struct.
template <class Value, class Options>
concept bare_value =
    (std::is_arithmetic_v<Value> || std::same_as<Value, rate>) && !std::convertible_to<const Value&, Options>;

/// Rejects a completion token that would drop the permit as soon as it is granted.
template <class Token>
constexpr void refuse_to_drop_permit() noexcept {
  static_assert(!std::is_same_v<std::remove_cvref_t<Token>, net::detached_t>,
                "async_acquire: detached drops the permit at once, so nothing is limited: take it with a handler");
}

/// Rejects a completion token that would drop the received value.
template <class Token>
constexpr void refuse_to_drop_value() noexcept {
  static_assert(!std::is_same_v<std::remove_cvref_t<Token>, net::detached_t>,
                "async_receive: detached drops the value: take it with a handler");
}

/// A handler that takes any results, for concepts that check whether an operation exists.
struct any_handler {
  template <class... Results>
  void operator()(Results&&...) const noexcept {}
};

}  // namespace canigo::detail
