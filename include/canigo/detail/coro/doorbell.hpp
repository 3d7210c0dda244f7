#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

namespace canigo {
class time_source;
}

namespace canigo::detail {

/// An event for one coroutine. The coroutine waits until ring() is called, or until a given instant.
///
/// The coroutine and all calls of ring() run on one strand. A cancellation does not end the wait. Instead, the function
/// `cancelled` is called on the strand, and must make sure that ring() is called.
class doorbell {
 public:
  explicit doorbell(const net::any_io_executor& strand);
  doorbell(const doorbell&) = delete;
  doorbell& operator=(const doorbell&) = delete;

  void ring() noexcept;
  /// Waits until ring() is called, or until `t`. The coroutine always passes through the event loop, even if ring() was
  /// called before, or `t` has passed.
  net::awaitable<void> wait_until(time_point t);

  time_source& time() noexcept { return time_; }

 protected:
  ~doorbell() = default;
  virtual void cancelled() noexcept = 0;

 private:
  class visitor;

  net::any_io_executor strand_;
  time_source& time_;
  visitor* visitor_ = nullptr;
  bool is_rung_ = false;  // whether ring() was called while no coroutine waited
};

}  // namespace canigo::detail
