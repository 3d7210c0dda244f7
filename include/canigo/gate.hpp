#pragma once

#include "canigo/detail/admission/awaited.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/use_awaitable.hpp>

#include <cstdint>
#include <optional>
#include <system_error>

namespace canigo {

/// Counts running operations, and can be closed. After close() no new operation may begin, and close() waits until all
/// running operations have ended.
///
///     canigo::permit inside = gate.enter();   // in each operation
///     co_await gate.close();                  // at the end
///
/// Threads: any thread may call any member at any time.
/// Lifetime: destroying the gate ends each waiting close() with errc::stopped. Issued permits stay valid. The execution
/// context may be destroyed first.
class gate {
 public:
  explicit gate(const net::any_io_executor& executor);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit gate(ExecutionContext& context) : gate{net::any_io_executor{context.get_executor()}} {}
  ~gate();
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;

  /// Enters the gate. The operation counts as running as long as its caller holds the permit. Throws std::system_error
  /// (errc::stopped) after close().
  permit enter();
  /// Like enter(), but returns std::nullopt instead of throwing after close().
  [[nodiscard]] std::optional<permit> try_enter() noexcept;

  /// Closes the gate immediately, before the awaitable is started. The awaitable waits until all permits are released.
  /// close() may be called several times and from several threads.
  ///
  /// Errors: errc::stopped if the gate is destroyed meanwhile.
  /// Cancellation: terminal, partial, total. Ends the wait; the gate stays closed.
  /// Completes on the awaiting coroutine's executor. Allocates nothing but its coroutine frame, which Asio recycles.
  net::awaitable<void> close();

  /// Like close(), for any completion token; signature void(std::error_code). Always completes by a post.
  template <net::completion_token_for<void(std::error_code)> Token = net::use_awaitable_t<>>
  auto async_close(Token&& token = Token()) {
    shut();
    return net::async_initiate<Token, void(std::error_code)>(detail::start_waiting<detail::plain_waiter>{admission_},
                                                             token, request{});
  }

  /// The number of permits in use.
  std::uint64_t count() const;

 private:
  void shut();

  detail::admission* admission_;
};

}  // namespace canigo
