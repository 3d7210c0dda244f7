#pragma once

#include "canigo/jobs/job.hpp"
#include "canigo/net.hpp"

#include <asio/awaitable.hpp>
#include <nlohmann/json.hpp>

#include <concepts>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace canigo::jobs {

/// Converts a value to JSON for the payload of a job: `jobs.submit("confirm", jobs::to_json(order))`. T is any type
/// that nlohmann::json supports.
///
/// Under g++ 12, give the value a name if the call is part of a co_await expression: that compiler may destroy the
/// value twice. Throws nlohmann::json::exception, for example for a text that is not UTF-8.
template <class T>
std::string to_json(const T& value) {
  return nlohmann::json(value).dump();
}

/// Converts the JSON of a payload or a result to a value. Throws nlohmann::json::exception.
template <class T>
T from_json(std::string_view text) {
  return nlohmann::json::parse(text).template get<T>();
}

/// Makes a handler from a function that takes a value instead of bytes: net::awaitable<R>(const T&, job&). R is void,
/// or a type that nlohmann::json supports, which becomes the result.
///
///     auto confirm = [&](const order& o, jobs::job& j) -> net::awaitable<receipt> { … };
///     service.handle("confirm", jobs::typed<order>(confirm));
///
/// If a payload can't be converted to T, the handler throws jobs::hopeless: the job gets no other attempt, because
/// another attempt would also fail. Requires version 3.9 or later of the nlohmann library.
template <class T, class F>
  requires std::invocable<F&, const T&, job&>
auto typed(F f) {
  return [f = std::move(f)](job& j) mutable -> net::awaitable<std::string> {
    const auto read = [&j] {
      try {
        return from_json<T>(j.payload());
      } catch (const nlohmann::json::exception& e) {
        throw hopeless{std::string{"the payload is not what this handler takes: "} + e.what()};
      }
    };
    const T value = read();
    using result = typename std::invoke_result_t<F&, const T&, job&>::value_type;
    if constexpr (std::is_void_v<result>) {
      co_await f(value, j);
      co_return std::string{};
    } else {
      const result made = co_await f(value, j);
      co_return to_json(made);
    }
  };
}

}  // namespace canigo::jobs
