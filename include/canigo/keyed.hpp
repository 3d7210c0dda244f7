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

/// A limit for each key of many, such as a client's address: `keyed<scheduler, std::string>`, `keyed<semaphore, int>`.
template <class Limit, class Key, class Hash = key_hash<Key>>
class keyed;

/// A rate for each key, such as a client's address.
///
///     canigo::keyed_scheduler<std::string> per_ip{io, {.rate = rate::per_second(5), .burst = 10}};
///     if (!per_ip.try_acquire(ip)) co_return too_many_requests(per_ip.retry_after(ip));
///     co_await per_ip.acquire(ip, {.deadline = now + 1s});
///
/// Each key has a token bucket, and all have the same rate and burst. A new key has `burst` tokens. A key whose bucket
/// is full again can't be told from a new one, so it is forgotten when its place is needed. For each key the promises
/// of canigo::scheduler hold: the bounds of a window, priority, order, and one end for each acquire.
///
/// A key without waiters costs 16 bytes beside the key, in a table of which a half to seven eighths is used. A key has
/// an engine only while it has waiters. The table never has more than `most_keys` keys. When it is full, a new key is
/// refused, or shares one limit with all other new keys. Keys that are known keep their state. The hash is seeded by
/// each process, so that a stranger can't choose keys that collide.
///
/// While the table is full, each request looks at a few places for keys to forget. So if few keys can be forgotten, it
/// may take some requests until one of them is found.
///
/// Errors of acquire; a failed one consumes nothing:
/// - errc::too_many_keys for a new key, with overflow_of_keys::refuse;
/// - errc::queue_full if `most_waiting` requests wait, of all keys together, or by the queue of the key;
/// - std::bad_alloc if there is no memory for a new key, or to begin to wait for one;
/// - all those of canigo::scheduler.
///
/// Cancellation: terminal, partial, total; as canigo::scheduler.
/// Threads: any, all members, at once. Keys are compared, copied and moved under a lock.
/// Allocates: nothing for a known key that does not wait.
/// Lifetime: destroying it ends every waiter with errc::stopped. The execution context may be destroyed first.
template <class Key, class Hash>
class keyed<scheduler, Key, Hash> {
  using core = detail::keyed_core<Key, Hash, detail::keyed_tokens>;

 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  keyed(const net::any_io_executor& executor, const keyed_scheduler_options& options, const Hash& hash = Hash{})
      : core_{core::open(executor, detail::checked(options), hash)} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  keyed(ExecutionContext& context, const keyed_scheduler_options& options, const Hash& hash = Hash{})
      : keyed{net::any_io_executor{context.get_executor()}, options, hash} {}
  ~keyed() { core_->close(); }
  keyed(const keyed&) = delete;
  keyed& operator=(const keyed&) = delete;

  /// Takes the tokens if they are there and the key has no waiters. Never waits itself. False for a new key that is
  /// refused, and once stopped.
  ///
  /// Throws std::system_error for a request that can never be granted, and std::bad_alloc.
  [[nodiscard("was it granted?")]] bool try_acquire(key_view<Key> key, const request& r = {}) {
    return core_->try_acquire(key, r) != core::grant::none;
  }

  /// Waits until the limit of the key grants the request. Throws std::system_error.
  ///
  /// A request that is granted at once does not pass through the event loop, except for one in 128.
  [[nodiscard("co_await it")]] net::awaitable<void> acquire(Key key, request r = {}) {
    return core::template acquire<void>(detail::keyed_ref<core>{*core_}, std::move(key), r);
  }

  /// Like acquire() above, without an exception: sets `error`, also to success. `error` must live until the wait ends.
  /// So a flood of refused keys costs no exceptions.
  [[nodiscard("co_await it")]] net::awaitable<void> acquire(Key key, request r, std::error_code& error) {
    return core::template acquire<void>(detail::keyed_ref<core>{*core_}, std::move(key), r, &error);
  }

  /// How long until a request of the key can be granted at the earliest: for a Retry-After. 0: now.
  ///
  /// For a new key that is refused: the time of one token, because it is unknown when the table will have a place.
  /// Throws std::system_error for a request that can never be granted.
  duration retry_after(key_view<Key> key, const request& r = {}) const { return core_->retry_after(key, r); }

  /// Ends every waiter and every later acquire with errc::stopped. Idempotent.
  void stop() noexcept { core_->stop(); }

  keyed_stats stats() const noexcept { return core_->stats(); }
  using executor_type = net::any_io_executor;
  executor_type get_executor() const { return core_->executor(); }

 private:
  core* core_;
};

/// Permission to run from a keyed<semaphore, Key>. Held until it is released or destroyed.
///
/// It may outlive the object that it comes from, and the execution context. It may be dropped on any thread.
///
/// Threads: one at a time. Allocates: the key, if its copies do.
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

  /// Gives back everything that is held; the next waiters of the key go. Idempotent.
  void release() noexcept {
    if (places_ == 0) return;
    home_->give_back(*key_, std::exchange(places_, 0), is_shared_);
    home_ = detail::keyed_ref<detail::keyed_home<Key>>{};
    key_.reset();
  }

  /// The number of permits that it stands for; 0 once it is released or moved away.
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

/// A cap on concurrency for each key: at most `permits` of a key are out at once.
///
///     canigo::keyed_semaphore<std::string> per_user{io, {.permits = 2}};
///     auto p = co_await per_user.acquire(user);
///
/// A key costs nothing while none of its permits is out and it has no waiters. For each key the promises of
/// canigo::semaphore hold. All else is as for keyed<scheduler, Key>: bounded keys, errors, cancellation, threads and
/// lifetime. Permits that are out stay good when this is destroyed.
///
/// Allocates: nothing for a request that does not wait, but the copy of the key for the permit.
template <class Key, class Hash>
class keyed<semaphore, Key, Hash> {
  using core = detail::keyed_core<Key, Hash, detail::keyed_places>;

 public:
  using permit = keyed_permit<Key>;

  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  keyed(const net::any_io_executor& executor, const keyed_semaphore_options& options, const Hash& hash = Hash{})
      : core_{core::open(executor, detail::checked(options), hash)} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  keyed(ExecutionContext& context, const keyed_semaphore_options& options, const Hash& hash = Hash{})
      : keyed{net::any_io_executor{context.get_executor()}, options, hash} {}
  ~keyed() { core_->close(); }
  keyed(const keyed&) = delete;
  keyed& operator=(const keyed&) = delete;

  /// Takes `request.tokens` permits if they are there and the key has no waiters. Never waits itself.
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
  /// A request that is granted at once does not pass through the event loop, except for one in 128.
  [[nodiscard("co_await it")]] net::awaitable<permit> acquire(Key key, request r = {}) {
    return core::template acquire<permit>(detail::keyed_ref<core>{*core_}, std::move(key), r);
  }

  /// Like acquire() above, without an exception: sets `error`, also to success. If it fails, the permit is empty.
  /// `error` must live until the wait ends.
  [[nodiscard("co_await it")]] net::awaitable<permit> acquire(Key key, request r, std::error_code& error) {
    return core::template acquire<permit>(detail::keyed_ref<core>{*core_}, std::move(key), r, &error);
  }

  /// Ends every waiter and every later acquire with errc::stopped. Idempotent.
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
