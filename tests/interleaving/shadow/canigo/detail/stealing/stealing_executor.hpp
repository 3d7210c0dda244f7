#pragma once

// Replaces the library's executor, which needs an io_context.

#include "canigo/detail/stealing/posted.hpp"
#include "canigo/detail/stealing/stealing_service.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>

#include <memory>
#include <utility>

namespace canigo::detail {

template <class Allocator, bool IsTracked>
class stealing_executor {
 public:
  explicit stealing_executor(stealing_service& service) noexcept : service_{&service} {}

  template <class Function>
  void execute(Function&& f) const {
    service_->push(*make_posted(std::forward<Function>(f), Allocator{}), false);
  }
  bool operator==(const stealing_executor&) const noexcept = default;
  net::execution_context& query(net::execution::context_t) const noexcept { return service_->context(); }
  static constexpr net::execution::blocking_t query(net::execution::blocking_t) noexcept {
    return net::execution::blocking.never;
  }
  stealing_executor require(net::execution::blocking_t::never_t) const noexcept { return *this; }

  stealing_service& service() const noexcept { return *service_; }

 private:
  stealing_service* service_;
};

using work_stealing_executor = stealing_executor<std::allocator<void>, false>;

}  // namespace canigo::detail
