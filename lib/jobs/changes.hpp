#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/net.hpp"
#include "canigo/wait_group.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstdint>
#include <memory>

namespace canigo::jobs::detail {

/// A counter of changes, and the callers that wait for the next change. Threads: any.
class changes {
 public:
  explicit changes(const net::any_io_executor& executor) : executor_{executor} {}

  /// Waits until the counter differs from `seen`, and returns the counter. Throws errc::stopped after stop().
  static net::awaitable<std::uint64_t> after(std::shared_ptr<changes> c, std::uint64_t seen);

  std::uint64_t number() const noexcept;
  void bump() noexcept { ring(false); }
  void stop() noexcept { ring(true); }

 private:
  void ring(bool for_good) noexcept;

  net::any_io_executor executor_;
  mutable canigo::detail::mutex mutex_;
  std::uint64_t number_ = 1;
  bool is_stopped_ = false;
  std::shared_ptr<wait_group> round_;  // the group of all callers that wait for the next change; null: no caller waits
};

}  // namespace canigo::jobs::detail
