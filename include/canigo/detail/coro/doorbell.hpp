#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

namespace canigo {
class time_source;
}

namespace canigo::detail {

/// Lets one coroutine wait until ring() is called, or until a time.
///
/// The coroutine and all calls of ring() run on one strand. A cancellation does not end the wait: `cancelled` is called
/// on the strand, and makes sure that ring() is called.
class doorbell {
 public:
  explicit doorbell(const net::any_io_executor& strand);
  doorbell(const doorbell&) = delete;
  doorbell& operator=(const doorbell&) = delete;

  void ring() noexcept;
  /// Goes through the event loop, even if the bell was rung before or `t` has passed.
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
  bool is_rung_ = false;  // ring() was called while no coroutine waited
};

}  // namespace canigo::detail
