#pragma once

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <exception>
#include <optional>
#include <system_error>
#include <utility>

namespace redis_test {

/// Runs the loop until this coroutine has ended, so that leases are renewed meanwhile. Returns or throws its result.
template <class T>
T run(asio::io_context& io, asio::awaitable<T> work) {
  std::optional<T> value;
  std::exception_ptr failure;
  bool ended = false;
  asio::co_spawn(io, std::move(work), [&](std::exception_ptr e, T v) {
    failure = e;
    value.emplace(std::move(v));
    ended = true;
  });
  io.restart();
  while (!ended && io.run_one() != 0) {
  }
  if (failure) std::rethrow_exception(failure);
  return std::move(value).value();
}

}  // namespace redis_test
