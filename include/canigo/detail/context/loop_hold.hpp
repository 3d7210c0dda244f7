#pragma once

#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>

namespace canigo::detail {

/// Keeps an event loop running while there is at least one reason, such as a waiting caller.
///
/// The owner adds and removes reasons under its lock. remove_reason() does not release the loop, because a new reason
/// is usually added in the same critical section. At the end of that section, the owner calls let_go(), which releases
/// the loop if there is no reason. The owner destroys the returned executor only after it has released its lock.
class loop_hold {
 public:
  /// Holds the loop of `executor`. If there is no memory for that, the loop is not held. Memory is needed only if the
  /// executor does not fit into the buffer inside any_io_executor.
  void add_reason(const net::any_io_executor& executor) noexcept {
    if (reasons_++ == 0 && !is_held_) hold(executor);
  }
  void remove_reason() noexcept { --reasons_; }

  /// Whether the loop is still held although there is no reason any more.
  bool is_over() const noexcept { return is_held_ && reasons_ == 0; }
  /// Releases the loop if is_over(). The returned executor keeps the loop running until that executor is destroyed.
  net::any_io_executor let_go() noexcept;
  /// Like let_go(), but releases the loop even if there is a reason. Call it when the context is about to be destroyed.
  net::any_io_executor give_up() noexcept;

 private:
  void hold(const net::any_io_executor& executor) noexcept;

  std::size_t reasons_ = 0;
  bool is_held_ = false;
  net::any_io_executor work_;
};

}  // namespace canigo::detail
