#pragma once

#include "canigo/net.hpp"

#include <asio/awaitable.hpp>

#include <exception>
#include <system_error>
#include <utility>

/// Returns the code of an exception: no error without an exception, protocol_error if it has no code.
inline std::error_code code_of(const std::exception_ptr& e) {
  try {
    if (e) std::rethrow_exception(e);
  } catch (const std::system_error& s) {
    return s.code();
  } catch (...) {
    return std::make_error_code(std::errc::protocol_error);
  }
  return {};
}

/// Returns the error code with which an operation ended.
template <class T>
canigo::net::awaitable<std::error_code> outcome_of(canigo::net::awaitable<T> op) {
  std::exception_ptr e;
  try {
    (void)co_await std::move(op);
  } catch (...) {
    e = std::current_exception();
  }
  co_return code_of(e);
}
