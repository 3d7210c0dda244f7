#pragma once

#include "canigo/detail/admission/awaited.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/use_awaitable.hpp>

#include <cstdint>
#include <system_error>

namespace canigo {

/// A count, and a wait until it is zero, like Go's sync.WaitGroup. For work within one scope, gate and task_group are
/// safer.
///
/// Threads: any thread may call any member at any time.
/// Lifetime: destroying this object ends every waiter with errc::stopped. The execution context may be destroyed first.
class wait_group {
 public:
  explicit wait_group(const net::any_io_executor& executor);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit wait_group(ExecutionContext& context) : wait_group{net::any_io_executor{context.get_executor()}} {}
  ~wait_group();
  wait_group(const wait_group&) = delete;
  wait_group& operator=(const wait_group&) = delete;

  /// Increments the count by `n`.
  void add(std::uint64_t n = 1) noexcept;
  /// Decrements the count. Precondition: the count is above zero.
  void done() noexcept;
  std::uint64_t count() const;

  /// Waits until the count is zero. Then all waiters are resumed, even if the count rises again immediately.
  ///
  /// Errors: errc::stopped if the group is destroyed meanwhile.
  /// Cancellation: terminal, partial, total. Ends the wait.
  /// Completes on the awaiting coroutine's executor. Allocates nothing but its coroutine frame, which Asio recycles.
  net::awaitable<void> wait();

  /// Like wait(), for any completion token; signature void(std::error_code). Always completes by a post.
  template <net::completion_token_for<void(std::error_code)> Token = net::use_awaitable_t<>>
  auto async_wait(Token&& token = Token()) {
    return net::async_initiate<Token, void(std::error_code)>(detail::start_waiting<detail::plain_waiter>{admission_},
                                                             token, request{});
  }

 private:
  detail::admission* admission_;
};

}  // namespace canigo
