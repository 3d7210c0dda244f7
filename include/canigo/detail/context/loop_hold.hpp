#pragma once

#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>

namespace canigo::detail {

/// Keeps a loop running while there is a reason to.
///
/// Reasons come and go under the lock of its owner, the loop is let go of after it, as mostly the next reason has come
/// by then.
class loop_hold {
 public:
  /// Of the loop below `executor`. Without memory, which only an executor takes that is too large for any_io_executor's
  /// own room, the loop is not held.
  void add_reason(const net::any_io_executor& executor) noexcept {
    if (reasons_++ == 0 && !is_held_) hold(executor);
  }
  void remove_reason() noexcept { --reasons_; }

  /// Whether the loop is held for no reason.
  bool is_over() const noexcept { return is_held_ && reasons_ == 0; }
  /// Lets go of the loop where that is so: what is returned keeps it running as long as it is there.
  net::any_io_executor let_go() noexcept;
  /// The same whether there is a reason or not: the context is about to go.
  net::any_io_executor give_up() noexcept;

 private:
  void hold(const net::any_io_executor& executor) noexcept;

  std::size_t reasons_ = 0;
  bool is_held_ = false;
  net::any_io_executor work_;
};

}  // namespace canigo::detail
