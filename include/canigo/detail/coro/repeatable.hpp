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

/// Makes another operation at each call; `number` counts the calls, from 1.
template <class Make>
auto call_repeatable(Make& make, [[maybe_unused]] std::uint32_t number) {
  if constexpr (takes_number<Make>) {
    return make(number);
  } else {
    return make();
  }
}

/// A callable that returns an awaitable, with or without the number of the call.
template <class Make>
concept repeatable = (takes_number<Make> || std::is_invocable_v<Make&>) &&
                     is_awaitable<decltype(call_repeatable(std::declval<Make&>(), std::uint32_t{}))>;

template <class T>
struct value_of_awaitable;
template <class T>
struct value_of_awaitable<net::awaitable<T>> {
  using type = T;
};

template <class Make>
using result_of_repeatable =
    typename value_of_awaitable<decltype(call_repeatable(std::declval<Make&>(), std::uint32_t{}))>::type;

/// Throws errc::deadline_unreachable if `deadline` has passed.
void check_deadline(const net::any_io_executor& executor, time_point deadline);

/// Random bits for a delay: another value at each call, and in virtual time the same ones in each run.
std::uint64_t random_of(const net::any_io_executor& executor);

}  // namespace canigo::detail
