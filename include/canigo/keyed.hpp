#pragma once

#include "canigo/algorithms/key_hash.hpp"
#include "canigo/detail/keyed/keyed_core.hpp"
#include "canigo/keyed_options.hpp"
#include "canigo/net.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace canigo {

class scheduler;
class semaphore;

/// A separate limit for each key, such as a client's address: `keyed<scheduler, std::string>`, `keyed<semaphore, int>`.
template <class Limit, class Key, class Hash = key_hash<Key>>
class keyed;

/// A separate rate limit for each key, such as a client's address.
///
///     canigo::keyed_scheduler<std::string> per_ip{io, {.rate = rate::per_second(5), .burst = 10}};
///     if (!per_ip.try_acquire(ip)) co_return too_many_requests(per_ip.retry_after(ip));
///     co_await per_ip.acquire(ip, {.deadline = now + 1s});
///
/// Each key has a token bucket of its own; all keys have the same rate and burst. A new key has `burst` tokens. A key
/// whose bucket is full again behaves like a new key, so the table drops it when it needs room. For each key the
/// promises of canigo::scheduler hold: the max number of tokens in a time window, priority, order, and exactly one end
/// for each acquire().
///
/// A key without waiters costs 16 bytes beside the key, in a table that is 50 % to 88 % full. A key has a queue only
/// while it has waiters. The table never has more than `most_keys` keys. When it is full, a new key is refused, or
/// shares one limit with all other new keys. Known keys keep their state. Each process seeds the hash differently, so
/// an attacker can't choose keys that collide.
///
/// While the table is full, each request with a new key checks a few entries for keys that can be dropped. If few keys
/// can be dropped, several such requests may come before a key to drop is found.
///
/// Errors of acquire(); a failed acquire() consumes nothing:
/// - errc::too_many_keys for a new key, with overflow_of_keys::refuse;
/// - errc::queue_full if `most_waiting` requests wait at all keys together, or if the queue of the key is full;
/// - std::bad_alloc if there is no memory for a new key or for the queue of a key;
/// - all errors of canigo::scheduler.
///
/// Cancellation: terminal, partial, total; as for canigo::scheduler.
/// Threads: any thread may call any member at any time. Keys are compared, copied and moved under a lock.
/// Allocates: nothing for a known key that does not wait.
/// Lifetime: destroying this object ends every waiter with errc::stopped. The execution context may be destroyed first.
template <class Key, class Hash>
class keyed<scheduler, Key, Hash> {
  using core = detail::keyed_core<Key, Hash, detail::keyed_tokens>;

 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  keyed(const net::any_io_executor& executor, const keyed_scheduler_options& options, const Hash& hash = Hash{})
      : core_{core::open(executor, detail::checked(options), hash)} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  keyed(ExecutionContext& context, const keyed_scheduler_options& options, const Hash& hash = Hash{})
      : keyed{net::any_io_executor{context.get_executor()}, options, hash} {}
  ~keyed() { core_->close(); }
  keyed(const keyed&) = delete;
  keyed& operator=(const keyed&) = delete;

  /// Takes the tokens if they are available and the key has no waiters. Otherwise returns false, and never waits. Also
  /// returns false for a new key that is refused, and after stop().
  ///
  /// Throws std::system_error for a request that can never be granted, and std::bad_alloc.
  [[nodiscard("was it granted?")]] bool try_acquire(key_view<Key> key, const request& r = {}) {
    return core_->try_acquire(key, r) != core::grant::none;
  }

  /// Waits until the limit of the key grants the request. Throws std::system_error.
  ///
  /// If the request is granted immediately, the caller continues without a pass through the event loop, except in one
  /// of 128 calls.
  [[nodiscard("co_await it")]] net::awaitable<void> acquire(Key key, request r = {}) {
    return core::template acquire<void>(detail::keyed_ref<core>{*core_}, std::move(key), r);
  }

  /// Like acquire() above, but does not throw: sets `error` to the error, or to success. So a refused request does not
  /// cost an exception. `error` must live until the wait ends.
  [[nodiscard("co_await it")]] net::awaitable<void> acquire(Key key, request r, std::error_code& error) {
    return core::template acquire<void>(detail::keyed_ref<core>{*core_}, std::move(key), r, &error);
  }

  /// The min time until a request of the key can be granted, for a Retry-After header. 0: immediately.
  ///
  /// For a new key that is refused, the time at which the table will have room is unknown. So the result is the time in
  /// which the rate releases one token. Throws std::system_error for a request that can never be granted.
  duration retry_after(key_view<Key> key, const request& r = {}) const { return core_->retry_after(key, r); }

  /// Ends every waiter and every later acquire() with errc::stopped. Idempotent.
  void stop() noexcept { core_->stop(); }

  keyed_stats stats() const noexcept { return core_->stats(); }
  using executor_type = net::any_io_executor;
  executor_type get_executor() const { return core_->executor(); }

 private:
  core* core_;
};

/// A permission to run, from a keyed<semaphore, Key>. Held until it is released or destroyed.
///
/// It may outlive the keyed_semaphore and the execution context. It may be dropped on any thread.
///
/// Threads: one thread at a time may use a permit. Allocates: a copy of the key, if copying a key allocates.
template <class Key>
class [[nodiscard]] keyed_permit {
 public:
  keyed_permit() noexcept = default;
  keyed_permit(keyed_permit&& other) noexcept
      : home_{std::move(other.home_)},
        key_{std::exchange(other.key_, std::nullopt)},
        places_{std::exchange(other.places_, 0)},
        is_shared_{other.is_shared_} {}
  keyed_permit& operator=(keyed_permit&& other) noexcept {
    if (this != &other) {
      release();
      home_ = std::move(other.home_);
      key_ = std::exchange(other.key_, std::nullopt);
      places_ = std::exchange(other.places_, 0);
      is_shared_ = other.is_shared_;
    }
    return *this;
  }
  ~keyed_permit() { release(); }

  /// Gives back all held permits; then the next waiters of the key are granted. Idempotent.
  void release() noexcept {
    if (places_ == 0) return;
    home_->give_back(*key_, std::exchange(places_, 0), is_shared_);
    home_ = detail::keyed_ref<detail::keyed_home<Key>>{};
    key_.reset();
  }

  /// The number of permits that this object stands for; 0 after release() or a move.
  std::uint64_t held() const noexcept { return places_; }
  explicit operator bool() const noexcept { return places_ != 0; }

 private:
  template <class, class, class>
  friend class detail::keyed_core;
  template <class, class, class>
  friend class keyed;
  keyed_permit(detail::keyed_ref<detail::keyed_home<Key>> home, Key key, std::uint64_t places, bool is_shared) noexcept
      : home_{std::move(home)}, key_{std::move(key)}, places_{places}, is_shared_{is_shared} {}

  detail::keyed_ref<detail::keyed_home<Key>> home_;
  std::optional<Key> key_;
  std::uint64_t places_ = 0;
  bool is_shared_ = false;
};

/// A separate cap on concurrency for each key: at most `permits` permits of one key are in use at the same time.
///
///     canigo::keyed_semaphore<std::string> per_user{io, {.permits = 2}};
///     auto p = co_await per_user.acquire(user);
///
/// A key takes no memory while none of its permits is in use and it has no waiters. For each key the promises of
/// canigo::semaphore hold. The max number of keys, errors, cancellation, threads and lifetime are as for
/// keyed<scheduler, Key>. Issued permits stay valid when this object is destroyed.
///
/// Allocates: for a request that does not wait, only the copy of the key in the permit.
template <class Key, class Hash>
class keyed<semaphore, Key, Hash> {
  using core = detail::keyed_core<Key, Hash, detail::keyed_places>;

 public:
  using permit = keyed_permit<Key>;

  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  keyed(const net::any_io_executor& executor, const keyed_semaphore_options& options, const Hash& hash = Hash{})
      : core_{core::open(executor, detail::checked(options), hash)} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  keyed(ExecutionContext& context, const keyed_semaphore_options& options, const Hash& hash = Hash{})
      : keyed{net::any_io_executor{context.get_executor()}, options, hash} {}
  ~keyed() { core_->close(); }
  keyed(const keyed&) = delete;
  keyed& operator=(const keyed&) = delete;

  /// Takes `request.tokens` permits if they are available and the key has no waiters. Never waits.
  ///
  /// Throws std::system_error for a request that can never be granted, and std::bad_alloc.
  [[nodiscard("was it granted?")]] std::optional<permit> try_acquire(key_view<Key> key, const request& r = {}) {
    Key own(key);
    const auto how = core_->try_acquire(key, r);
    if (how == core::grant::none) return std::nullopt;
    return permit{detail::keyed_ref<detail::keyed_home<Key>>{*core_}, std::move(own), r.tokens,
                  how == core::grant::shared};
  }

  /// Waits until the limit of the key grants the request. Throws std::system_error.
  ///
  /// If the request is granted immediately, the caller continues without a pass through the event loop, except in one
  /// of 128 calls.
  [[nodiscard("co_await it")]] net::awaitable<permit> acquire(Key key, request r = {}) {
    return core::template acquire<permit>(detail::keyed_ref<core>{*core_}, std::move(key), r);
  }

  /// Like acquire() above, but does not throw: sets `error` to the error, or to success. After an error the returned
  /// permit is empty. `error` must live until the wait ends.
  [[nodiscard("co_await it")]] net::awaitable<permit> acquire(Key key, request r, std::error_code& error) {
    return core::template acquire<permit>(detail::keyed_ref<core>{*core_}, std::move(key), r, &error);
  }

  /// Ends every waiter and every later acquire() with errc::stopped. Idempotent.
  void stop() noexcept { core_->stop(); }

  keyed_stats stats() const noexcept { return core_->stats(); }
  using executor_type = net::any_io_executor;
  executor_type get_executor() const { return core_->executor(); }

 private:
  core* core_;
};

template <class Key, class Hash = key_hash<Key>>
using keyed_scheduler = keyed<scheduler, Key, Hash>;
template <class Key, class Hash = key_hash<Key>>
using keyed_semaphore = keyed<semaphore, Key, Hash>;

}  // namespace canigo
