#pragma once

#include "canigo/detail/admission/waiter.hpp"
#include "canigo/detail/context/misuse.hpp"
#include "canigo/limit_options.hpp"
#include "canigo/net.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/use_awaitable.hpp>

#include <cstddef>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace canigo {

namespace detail {
class flow_host;
}

/// The members that scheduler, semaphore, limiter and adaptive_limit share: acquiring, pausing, listing and stopping.
///
/// `Waiter` defines what acquire() returns: void for a scheduler, a permit for the other limits. The derived classes
/// describe errors, cancellation, threads and lifetime.
template <class Waiter>
class limit_handle {
  using grant = typename Waiter::granted_type;
  using attempt = std::conditional_t<std::is_void_v<grant>, bool, std::optional<grant>>;

 public:
  using executor_type = net::any_io_executor;

  limit_handle(const limit_handle&) = delete;
  limit_handle& operator=(const limit_handle&) = delete;

  /// Waits until the limit grants the request. Throws std::system_error if the limit does not grant it.
  ///
  /// A request that is granted immediately does not pass through the event loop, except after 128 such grants in a row.
  /// Completes on the awaiting coroutine's executor. Allocates nothing but its coroutine frame, which Asio recycles.
  [[nodiscard("co_await it")]] net::awaitable<grant> acquire(request r);
  [[nodiscard("co_await it")]] net::awaitable<grant> acquire();

  /// Like acquire() above, but does not throw: sets `error` to the error, or to success. After an error the returned
  /// permit is empty. `error` must live until the wait ends.
  [[nodiscard("co_await it")]] net::awaitable<grant> acquire(request r, std::error_code& error);

  /// Rejects a request with a field of the wrong type at compile time. The compiler's message names the right types.
  template <class Never = void>
  net::awaitable<grant> acquire(detail::misfit_request) {
    static_assert(!std::is_void_v<Never>,
                  "acquire: a field has another type: .priority and .tokens are whole numbers, .deadline is an instant "
                  "of steady_clock, .flow a pointer");
    return {};
  }
  /// Rejects a plain number or span of time instead of a request, at compile time. The compiler's message shows how to
  /// name the field.
  template <class Other>
    requires(std::is_same_v<Other, int> ||
             !(std::is_convertible_v<Other, request> || std::is_convertible_v<Other, int>))
  net::awaitable<grant> acquire(Other) {
    static_assert(std::is_void_v<Other>, "acquire: say what it is: acquire({.priority = 1, .tokens = 3})");
    return {};
  }
  /// Rejects acquire() on a const limit at compile time. The compiler's message says to take the limit by reference.
  template <class Never = void>
  net::awaitable<grant> acquire(const request& = {}) const {
    static_assert(!std::is_void_v<Never>, "acquire: this limit is const, and asking changes it: take it by reference");
    return {};
  }

  /// Like acquire(), for any completion token; signature void(std::error_code), or void(std::error_code, permit).
  ///
  /// Always completes by a post, on the handler's associated executor; the default is the limit's executor. Allocates
  /// one operation with the handler's associated allocator. If there is no memory for it, the handler gets
  /// errc::not_enough_memory. Without a token, async_acquire() returns an awaitable; without a request, all fields of
  /// the request have their defaults.
  template <net::completion_token_for<typename Waiter::signature> Token = net::use_awaitable_t<>>
  auto async_acquire(request r = {}, Token&& token = Token()) {
    if constexpr (!std::is_void_v<grant>) detail::refuse_to_drop_permit<Token>();
    return net::async_initiate<Token, typename Waiter::signature>(detail::start_waiting<Waiter>{admission_}, token, r);
  }
  template <class Token>
    requires(!std::is_convertible_v<Token, request>)
  auto async_acquire(Token&& token) {
    return async_acquire(request{}, std::forward<Token>(token));
  }

  /// Takes the tokens or permits if they are available, no request waits, and the limit is not paused. Never waits.
  ///
  /// If one of these conditions is not met, or if stop() was called, takes nothing, and returns false or std::nullopt.
  /// Throws std::system_error for a request that can never be granted.
  [[nodiscard("was it granted?")]] attempt try_acquire(const request& r);
  [[nodiscard("was it granted?")]] attempt try_acquire();

  /// Grants nothing until `t`, or until resume(). Tokens accumulate meanwhile, up to the burst. A later call of
  /// pause_until() replaces an earlier one.
  void pause_until(time_point t);
  /// Like pause_until(), but never shortens a pause that another caller has set.
  void extend_pause(time_point t);
  void pause() { pause_until(time_point::max()); }
  void resume();

  /// Switches shadow mode on or off. In shadow mode the limit grants each request immediately. It only counts the
  /// requests that it would have refused or delayed. So you can find the right settings for a running service without
  /// harm. Requests that wait when shadow mode begins are granted.
  ///
  /// In shadow mode the queue holds a shadow waiter for each request that would have waited. So the limit finds out
  /// when it would have granted the request. A shadow waiter allocates; if there is no memory, the request is not
  /// counted. For caps on concurrency the counts are a lower bound, because an operation that starts earlier also ends
  /// earlier. After shadow mode the limit counts the permits in use, and has the tokens that the shadow waiters did not
  /// take.
  ///
  /// Errors: errc::invalid_argument for a limiter with a shared_cap, which has no shadow mode.
  void set_mode(enforcement mode);
  enforcement mode() const noexcept;

  /// The first `most` waiters, in the order in which they would be granted now; in a limit with flows, by class and
  /// arrival. The estimate of a waiter counts the waiters ahead of it in its own flow, and all waiters of more
  /// important classes. With ageing, it counts the waiters of more important classes only until ageing promotes the
  /// waiter. Allocates.
  ///
  /// The lock is held while the list is made, so request only as many waiters as you show.
  std::vector<waiting_request> waiting(std::size_t most) const;

  /// Ends every waiter and every later acquire() with errc::stopped. Idempotent.
  void stop() noexcept;

  executor_type get_executor() const;

 protected:
  friend class flow;
  explicit limit_handle(detail::admission* a) noexcept : admission_{a} {}
  ~limit_handle();
  detail::flow_host& flows() const noexcept;

  detail::admission* admission_;
};

}  // namespace canigo
