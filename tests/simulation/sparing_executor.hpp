#pragma once

#include "canigo/net.hpp"

#include "context.hpp"
#include "shortage.hpp"

#include <asio/execution.hpp>
#include <asio/execution_context.hpp>

#include <utility>

namespace simulated {

/// The executor of a context that always has memory to queue a function, as an io_context has for functions that bring
/// their own memory. A strand of Asio stalls for ever once its inner executor had no memory.
class sparing_executor {
 public:
  explicit sparing_executor(context& c) noexcept : inner_{c.get_executor()} {}

  canigo::net::execution_context& query(canigo::net::execution::context_t c) const noexcept { return inner_.query(c); }
  canigo::net::execution::blocking_t query(canigo::net::execution::blocking_t b) const noexcept {
    return inner_.query(b);
  }
  sparing_executor require(canigo::net::execution::blocking_t::never_t b) const noexcept {
    return sparing_executor{inner_.require(b)};
  }
  sparing_executor require(canigo::net::execution::blocking_t::possibly_t b) const noexcept {
    return sparing_executor{inner_.require(b)};
  }

  template <class Function>
  void execute(Function&& f) const {
    const plenty here;
    inner_.execute(std::forward<Function>(f));
  }

  bool operator==(const sparing_executor&) const noexcept = default;

 private:
  explicit sparing_executor(context::executor_type inner) noexcept : inner_{inner} {}

  context::executor_type inner_;
};

}  // namespace simulated
