#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace canigo::detail {

template <class T>
inline constexpr bool is_awaitable = false;
template <class T>
inline constexpr bool is_awaitable<net::awaitable<T>> = true;

template <class Make>
inline constexpr bool takes_number = std::is_invocable_v<Make&, std::uint32_t>;

/// Calls `make`, which returns a new operation each time. `number` counts the calls, from 1.
template <class Make>
auto call_repeatable(Make& make, [[maybe_unused]] std::uint32_t number) {
  if constexpr (takes_number<Make>) {
    return make(number);
  } else {
    return make();
  }
}

/// The type that a call of `Make` returns. If `Make` can't be called, there is no member `type`, so a concept can check
/// for it.
template <class Make, bool = takes_number<Make>>
struct made_by : std::invoke_result<Make&> {};
template <class Make>
struct made_by<Make, true> : std::invoke_result<Make&, std::uint32_t> {};

/// A callable that returns an awaitable; it may take the number of the call.
template <class Make>
concept repeatable = requires { typename made_by<Make>::type; } && is_awaitable<typename made_by<Make>::type>;

/// Reports with a static_assert why `Make` is not repeatable.
template <class Make>
constexpr void refuse_to_repeat() noexcept {
  if constexpr (is_awaitable<Make>) {
    static_assert(!is_awaitable<Make>,
                  "an awaitable runs once: hand over what makes one at each call: [&] { return call(); }");
  } else {
    static_assert(repeatable<Make>,
                  "the function must return an awaitable: [&] { return call(); }, with net::awaitable<T> call()");
  }
}

template <class T>
struct value_of_awaitable;
template <class T>
struct value_of_awaitable<net::awaitable<T>> {
  using type = T;
};

template <class Make>
using result_of_repeatable = typename value_of_awaitable<typename made_by<Make>::type>::type;

/// Throws errc::deadline_unreachable if `deadline` has passed.
void check_deadline(const net::any_io_executor& executor, time_point deadline);

/// Returns random bits for a delay. Each call returns different bits. In virtual time, each run of a program gets the
/// same sequence.
std::uint64_t random_of(const net::any_io_executor& executor);

}  // namespace canigo::detail
