#pragma once

#include "canigo/detail/context/misuse.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/detail/limit_waiter.hpp"
#include "canigo/redis/limit_stats.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/use_awaitable.hpp>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace canigo::redis {

/// The members that redis::scheduler, redis::semaphore and redis::limiter share: acquiring, pausing and stopping.
///
/// `Waiter` defines what acquire() returns: void for a scheduler, a permit for the other limits. The derived classes
/// describe errors, cancellation, threads and lifetime.
template <class Waiter>
class limit_handle {
  using grant = typename canigo::detail::awaited<typename Waiter::results>::type;
  using attempt = std::conditional_t<std::is_void_v<grant>, bool, std::optional<grant>>;

 public:
  using executor_type = net::any_io_executor;

  limit_handle(const limit_handle&) = delete;
  limit_handle& operator=(const limit_handle&) = delete;

  /// Waits until the limit grants the request. Throws std::system_error.
  [[nodiscard("co_await it")]] net::awaitable<grant> acquire(request r = {});

  /// Like acquire(), for any completion token. The signature is void(std::error_code) for a scheduler, and
  /// void(std::error_code, redis::permit) for the other limits. Without a completion token, async_acquire() returns an
  /// awaitable. Without a request, all fields of the request have their defaults.
  template <net::completion_token_for<typename Waiter::signature> Token = net::use_awaitable_t<>>
  auto async_acquire(request r = {}, Token&& token = Token()) {
    if constexpr (!std::is_void_v<grant>) canigo::detail::refuse_to_drop_permit<Token>();
    return net::async_initiate<Token, typename Waiter::signature>(detail::start_limit_wait<Waiter>{ledger_}, token, r);
  }
  template <class Token>
    requires(!std::is_convertible_v<Token, request>)
  auto async_acquire(Token&& token) {
    return async_acquire(request{}, std::forward<Token>(token));
  }

  /// Takes the tokens or permits if they are available immediately, with at most one round trip and without joining the
  /// queue.
  ///
  /// Returns false or no permit if they are not available, or if another request waits. If Redis does not answer within
  /// 0.2 s, or within three round trips of a slow connection, the option `on_failure` decides the result. If
  /// `on_failure` is closed, the call ends with errc::store_unavailable, after at least 0.5 s. A semaphore always
  /// behaves as if `on_failure` were closed. Other errors: those of acquire().
  [[nodiscard("co_await it")]] net::awaitable<attempt> acquire_now(request r = {});

  /// Takes a token or permit that this process holds in reserve, if no request of this process waits. Never waits, and
  /// never calls Redis. Without the option `horizon` there is no reserve; a limiter does not have that option.
  ///
  /// Returns false or no permit if there is no token or permit in reserve, and after stop(). Throws std::system_error
  /// for a request that can never be granted.
  [[nodiscard("was it granted?")]] attempt try_acquire(request r = {});

  /// Grants nothing in any process until `t`, or until resume(). For example, a process that gets a status 429 can
  /// pause all processes. Tokens accumulate meanwhile, up to the burst. A later call by any process replaces the pause
  /// of an earlier call.
  void pause_until(time_point t);
  void pause() { pause_until(time_point::max()); }
  void resume();

  /// Allocates memory for the returned statistics.
  limit_stats stats() const;

  /// Ends every waiter and every later acquire() with errc::stopped. Idempotent.
  void stop() noexcept;

  executor_type get_executor() const;

 protected:
  explicit limit_handle(std::shared_ptr<detail::ledger> l) noexcept : ledger_{std::move(l)} {}
  ~limit_handle();

  std::shared_ptr<detail::ledger> ledger_;
};

}  // namespace canigo::redis
