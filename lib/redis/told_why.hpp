#pragma once

#include "canigo/net.hpp"
#include "canigo/request.hpp"

#include "ledger.hpp"

#include <asio/awaitable.hpp>

#include <memory>
#include <system_error>
#include <utility>

namespace canigo::redis::detail {

/// The grant of a request for a coroutine. If it fails, the text of the exception says why.
template <class T>
net::awaitable<T> told_why(std::shared_ptr<ledger> l, request r, net::awaitable<T> grant) {
  std::error_code ec;
  try {
    co_return co_await std::move(grant);
  } catch (const std::system_error& e) {
    ec = e.code();
  }
  l->fail(ec, r);
}

}  // namespace canigo::redis::detail
