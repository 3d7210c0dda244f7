#pragma once

#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>

#include <memory>
#include <utility>

namespace canigo::detail {

/// It says whose work runs on an executor. Its maker derives from it.
///
/// Copies of an executor live as long as anybody keeps one, so a mark may outlive the work. Its maker knows, under a
/// lock of its own, whether the work still goes on.
struct executor_mark {
  const void* maker;
};

/// An executor with a mark, so that whatever a coroutine starts inside of its work can find out where it is.
class marked_executor {
 public:
  marked_executor(const net::any_io_executor& inner, std::shared_ptr<executor_mark> mark);

  net::execution_context& query(net::execution::context_t) const noexcept {
    return net::query(own_->inner, net::execution::context);
  }
  marked_executor require(net::execution::blocking_t::never_t) const noexcept { return {own_, true}; }
  marked_executor require(net::execution::blocking_t::possibly_t) const noexcept { return {own_, false}; }

  template <class Function>
  void execute(Function&& f) const {
    (never_blocks_ ? own_->posting : own_->inner).execute(std::forward<Function>(f));
  }

  bool operator==(const marked_executor& other) const noexcept {
    return own_ == other.own_ && never_blocks_ == other.never_blocks_;
  }
  bool operator!=(const marked_executor& other) const noexcept { return !(*this == other); }

  const net::any_io_executor& inner() const noexcept { return own_->inner; }
  const std::shared_ptr<executor_mark>& mark() const noexcept { return own_->mark; }

 private:
  struct shared {
    net::any_io_executor inner;
    net::any_io_executor posting;  // inner, never from inside execute()
    std::shared_ptr<executor_mark> mark;
  };
  marked_executor(std::shared_ptr<const shared> own, bool never_blocks) noexcept
      : own_{std::move(own)}, never_blocks_{never_blocks} {}

  std::shared_ptr<const shared> own_;
  bool never_blocks_ = false;
};

/// The innermost mark of `maker` on `executor` or on an executor below it; null if there is none.
std::shared_ptr<executor_mark> mark_of(const net::any_io_executor& executor, const void* maker);

}  // namespace canigo::detail
