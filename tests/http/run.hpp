#pragma once

#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <exception>
#include <optional>
#include <system_error>
#include <utility>

namespace http_test {

/// Runs a coroutine and then the loop until nothing is left in it; returns or throws what the coroutine does.
template <class T>
T run_to_end(asio::io_context& io, asio::awaitable<T> work) {
  std::optional<T> value;
  std::exception_ptr failure;
  asio::co_spawn(io, std::move(work), [&](std::exception_ptr e, T v) {
    failure = e;
    value.emplace(std::move(v));
  });
  io.restart();
  io.run();
  if (failure) std::rethrow_exception(failure);
  return std::move(value).value();
}

/// What the exception says that a coroutine ends with; empty if it returns.
template <class T>
std::string text_of(asio::io_context& io, asio::awaitable<T> work) {
  try {
    run_to_end(io, std::move(work));
    return {};
  } catch (const std::system_error& e) {
    return said_by(e);
  }
}

/// The error that a coroutine ends with; none if it returns.
template <class T>
std::error_code error_of(asio::io_context& io, asio::awaitable<T> work) {
  try {
    run_to_end(io, std::move(work));
    return {};
  } catch (const std::system_error& e) {
    return e.code();
  }
}

}  // namespace http_test
