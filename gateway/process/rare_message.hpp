#pragma once

#include "gateway/wire/standard_error.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

namespace canigo::gateway {

/// Writes messages of one kind to standard error, at most one per minute. Threads: any.
class rare_message {
 public:
  /// Writes the message, unless this object has written one in the last minute.
  template <class... Args>
  void tell(fmt::format_string<Args...> format, Args&&... args) noexcept {
    if (is_due()) say(format, std::forward<Args>(args)...);
  }

 private:
  bool is_due() noexcept {
    const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
    const std::int64_t now = since_boot / std::chrono::seconds{1};
    std::int64_t last = told_at_.load(std::memory_order_relaxed);
    if (last != 0 && now - last < 60) return false;
    return told_at_.compare_exchange_strong(last, now, std::memory_order_relaxed);
  }

  std::atomic<std::int64_t> told_at_{0};  // when the last message was written, in seconds of the steady clock; 0: never
};

/// Reports exceptions that leave a handler. Such an exception means a lack of memory or a defect. It ends only the
/// connection or the handler that threw it. Threads: any.
class failure_report {
 public:
  void tell(const std::exception& e) noexcept {
    message_.tell("a connection ended, or a step failed: {}; perhaps others have, too", e.what());
  }

 private:
  rare_message message_;
};

}  // namespace canigo::gateway
