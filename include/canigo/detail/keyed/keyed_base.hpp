#pragma once

#include "canigo/algorithms/token_bucket.hpp"
#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/context/counted_member.hpp"
#include "canigo/detail/queue/supplies.hpp"
#include "canigo/keyed_options.hpp"
#include "canigo/net.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace canigo::detail {

/// Owns an engine, and closes it in the destructor unless the engine was released to another owner.
class engine_owner {
 public:
  engine_owner() noexcept = default;
  explicit engine_owner(admission* a) noexcept : engine_{a} {}
  engine_owner(engine_owner&& other) noexcept : engine_{other.release()} {}
  engine_owner& operator=(engine_owner&& other) noexcept {
    std::swap(engine_, other.engine_);
    return *this;
  }
  ~engine_owner();

  admission* operator->() const noexcept { return engine_; }
  explicit operator bool() const noexcept { return engine_ != nullptr; }
  admission* get() const noexcept { return engine_; }
  admission* release() noexcept { return std::exchange(engine_, nullptr); }

 private:
  admission* engine_ = nullptr;
};

/// The part of a keyed limit that does not depend on the key type: its time, its bounds, and how its engines are made.
///
/// The handle, each waiting operation and each permit hold a counted reference to it.
class keyed_base : public counted_member {
 public:
  struct bounds {
    std::size_t most_keys;
    std::size_t most_waiting;
  };

  /// Throws if a field of `r` is invalid; the message names the field.
  void check(const request& r) const;
  time_point now() const noexcept;
  net::any_io_executor executor() const;
  bool is_stopped() const noexcept { return is_stopped_.load(std::memory_order_acquire); }

  /// Counts one more key. Returns false if there are `most_keys` already.
  bool claim_key() noexcept;
  void give_up_keys(std::size_t n) noexcept { keys_.fetch_sub(n, std::memory_order_relaxed); }
  std::size_t keys() const noexcept { return keys_.load(std::memory_order_relaxed); }
  bool is_full() const noexcept { return keys() >= bounds_.most_keys; }
  std::size_t most_keys() const noexcept { return bounds_.most_keys; }

  /// Counts one more waiter. Returns false if there are `most_waiting` already.
  bool claim_waiter() noexcept;
  void give_up_waiter() noexcept { waiting_.fetch_sub(1, std::memory_order_relaxed); }
  std::size_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }

  /// Whether a coroutine must pass through the event loop before its request: true for one call in 128.
  bool is_loop_due() noexcept { return turns_.fetch_add(1, std::memory_order_relaxed) % 128 == 127; }

 protected:
  keyed_base(const net::any_io_executor& executor, const bounds& b, const admission_options& o,
             std::uint64_t largest_request);

  /// Opens a new engine. Throws errc::stopped if the context has been destroyed, and std::bad_alloc if there is no
  /// memory.
  engine_owner open_engine(supplies s);
  void note_stopped() noexcept { is_stopped_.store(true, std::memory_order_release); }

 private:
  void let_go_of_context() noexcept final;
  void end_with_context() noexcept final;

  net::any_io_executor executor_;
  const bounds bounds_;
  const admission_options options_;
  const std::uint64_t largest_;
  std::atomic<std::size_t> keys_{0};
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<bool> is_stopped_{false};
};

/// The state of a key without waiters, both of a keyed scheduler and of a keyed semaphore.
using key_level = token_bucket::level;

/// The rules of keyed schedulers. They define how a key's level (its tokens) is read, changed, moved into an engine and
/// moved back.
struct keyed_tokens {
  static key_level fresh(time_point now) noexcept { return {now.time_since_epoch().count(), 0}; }
  bool try_take(key_level& l, time_point now, std::uint64_t tokens) const noexcept {
    token_bucket b = bucket(l);
    if (!b.try_take(now, tokens)) return false;
    l = b.save();
    return true;
  }
  /// Whether the state of the key equals that of a new key.
  bool is_fresh(const key_level& l, time_point now) const noexcept { return bucket(l).is_as_new(now); }
  token_bucket bucket(const key_level& l) const noexcept {
    token_bucket b = full;
    b.restore(l);
    return b;
  }

  supplies make_supplies() const { return supplies{{full}}; }
  static void hand_over(admission& engine, const key_level& l) noexcept {
    engine.change_supplies([&](supplies& s, time_point) { s.rates().front().restore(l); });
  }
  static key_level take_back(admission& engine) noexcept {
    return engine.look([](const supplies& s, auto&&...) { return s.rates().front().save(); });
  }

  token_bucket full;  // the bucket of a new key, which is full
};

/// The rules of keyed semaphores. The level of a key counts its permits in use.
struct keyed_places {
  static key_level fresh(time_point) noexcept { return {}; }
  bool try_take(key_level& l, time_point, std::uint64_t places) const noexcept {
    if (places > permits || l.taken > permits - places) return false;
    l.taken += places;
    return true;
  }
  static bool is_fresh(const key_level& l, time_point) noexcept { return l.taken == 0; }

  supplies make_supplies() const { return supplies{{}, permits, supplies::occupancy::tokens}; }
  static void hand_over(admission& engine, const key_level& l) noexcept { engine.occupy(l.taken); }
  /// Returns the key's level from its engine, which has no waiters. Afterwards the engine holds no slot, so that it can
  /// be destroyed.
  static key_level take_back(admission& engine) noexcept {
    const std::uint64_t taken = engine.occupied();
    if (taken > 0) engine.release(taken);
    return {0, taken};
  }

  std::uint64_t permits;
};

/// The options of a keyed limit, after they were checked.
template <class Limit>
struct keyed_setup {
  Limit limit;
  std::uint64_t largest_request;
  overflow_of_keys on_new_key;
  keyed_base::bounds bounds;
  admission_options queue;
};

/// Returns the converted options if each field is in its range; otherwise throws an error that names the field.
keyed_setup<keyed_tokens> checked(const keyed_scheduler_options& o);
keyed_setup<keyed_places> checked(const keyed_semaphore_options& o);

}  // namespace canigo::detail
