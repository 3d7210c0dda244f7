#pragma once

#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace http_test {

/// Runs a coroutine, and then the loop until it has no work left. Returns or throws the coroutine's result.
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

/// Returns the part of a text after the host, as in "at 127.0.0.1:80, " or "in the queue for 127.0.0.1:80: ".
inline std::string behind_host(const std::string& text) {
  if (!text.starts_with("at ") && !text.starts_with("in the queue for ")) return text;
  const auto end = std::min(text.find(", "), text.find(": "));
  return end == std::string::npos ? "" : text.substr(end + 2);
}

/// Returns the text of the exception that a coroutine throws, without the host; empty if it throws none.
template <class T>
std::string text_of(asio::io_context& io, asio::awaitable<T> work) {
  try {
    run_to_end(io, std::move(work));
    return {};
  } catch (const std::system_error& e) {
    return behind_host(said_by(e));
  }
}

/// Returns the error code that a coroutine throws; no error if it throws none.
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
