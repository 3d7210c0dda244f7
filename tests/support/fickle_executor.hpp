#pragma once

#include "canigo/net.hpp"

#include <asio/execution.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

/// What an executor does with a function: it posts it, calls it at once although it should call it later, drops it, has
/// no memory for it, or calls it and then runs out of memory.
enum class mood { posts, calls, drops, throws, calls_and_throws };

/// An executor that asks a test each time what to do. The test may do something meanwhile, as another thread might.
class fickle_executor {
 public:
  using question = std::function<mood()>;

  fickle_executor(canigo::net::io_context& io, question ask)
      : io_{&io}, ask_{std::make_shared<const question>(std::move(ask))} {}
  canigo::net::execution_context& query(canigo::net::execution::context_t) const noexcept { return *io_; }
  static constexpr canigo::net::execution::blocking_t query(canigo::net::execution::blocking_t) noexcept {
    return canigo::net::execution::blocking.never;
  }
  template <class Function>
  void execute(Function&& f) const {
    std::decay_t<Function> own(std::forward<Function>(f));
    switch ((*ask_)()) {
      case mood::posts:
        return canigo::net::post(*io_, std::move(own));
      case mood::calls:
        return std::move(own)();
      case mood::drops:
        return;
      case mood::calls_and_throws:
        std::move(own)();
        [[fallthrough]];
      case mood::throws:
        throw std::bad_alloc{};
    }
  }
  bool operator==(const fickle_executor&) const noexcept = default;

 private:
  canigo::net::io_context* io_;
  std::shared_ptr<const question> ask_;
};
