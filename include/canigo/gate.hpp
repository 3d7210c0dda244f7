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

/// Counts work in flight, and closes. Work that is inside may finish, no other work gets in, and close() waits until
/// all of it has left.
///
///     canigo::permit inside = gate.enter();   // in each operation
///     co_await gate.close();                  // at the end
///
/// Threads: any, all members, at once.
/// Lifetime: destroying it ends each close() that waits with errc::stopped. Permits that are out stay good. The
/// execution context may be destroyed first.
class gate {
 public:
  explicit gate(const net::any_io_executor& executor);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit gate(ExecutionContext& context) : gate{net::any_io_executor{context.get_executor()}} {}
  ~gate();
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;

  /// The caller is inside while it holds the permit. Throws std::system_error, errc::stopped, once the gate is
  /// closing.
  permit enter();
  /// Like enter(), without an exception: returns nothing once the gate is closing.
  [[nodiscard]] std::optional<permit> try_enter() noexcept;

  /// Closes the gate at the call. The awaitable waits until all work has left. May be called again, and from several
  /// places.
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

  /// How many permits are out.
  std::uint64_t count() const;

 private:
  void shut();

  detail::admission* admission_;
};

}  // namespace canigo
