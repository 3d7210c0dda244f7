#pragma once

#include "canigo/detail/suspend.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/associated_executor.hpp>
#include <asio/post.hpp>

#include <memory>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// Initiates an operation for a caller that came with a completion token. `Home` is what is waited for, kept alive by
/// who waits; next to it stands `executor_of(const Home&)`. `Base`, as of a suspended_op, is made of it and the
/// arguments, and has
///   start(Base&) noexcept      next to it: from here on it ends by a post
///   fail(errc) noexcept        ends it before it is started
///   static results failed(errc) what the handler gets if there is no memory for it
template <class Base, class Home>
struct initiation {
  std::shared_ptr<Home> home;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return executor_of(*home); }

  template <class Handler, class... Args>
  void operator()(Handler&& handler, Args&&... args) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    try {
      auto* op = make_suspended<Base>(h, executor_of(*home), home, std::forward<Args>(args)...);
      try {
        op->allow_cancel();
      } catch (...) {
        op->fail(errc::not_enough_memory);
      }
      start(*op);
    } catch (const std::bad_alloc&) {
      // Under co_await a throw from here would be std::terminate.
      net::post(net::get_associated_executor(h, executor_of(*home)),
                [h = std::move(h)]() mutable { std::apply(std::move(h), Base::failed(errc::not_enough_memory)); });
    }
  }
};

}  // namespace canigo::detail
