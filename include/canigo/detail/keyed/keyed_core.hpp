#pragma once

#include "canigo/algorithms/key_hash.hpp"
#include "canigo/detail/admission/awaited.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/keyed/key_state.hpp"
#include "canigo/detail/keyed/keyed_base.hpp"
#include "canigo/detail/keyed/keyed_home.hpp"
#include "canigo/detail/keys/key_table.hpp"
#include "canigo/error.hpp"
#include "canigo/keyed_options.hpp"
#include "canigo/net.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"
#include "canigo/timeout.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// The keys of a keyed limit, distributed over shards with a lock each. `Limit` defines the state of a key.
///
/// The lock of a shard is held while a request looks up its key and changes the key's state, and while the shard's
/// table grows. Of the user's code, only the hash, comparison, copy and move of keys run under that lock. A thread that
/// needs the locks of a shard and of an engine locks the shard first.
template <class Key, class Hash, class Limit>
class keyed_core final : public keyed_home<Key> {
  using view = key_view<Key>;
  static_assert(std::is_nothrow_invocable_r_v<std::uint64_t, const Hash&, view>,
                "keyed: the hash of a key must be `std::uint64_t operator()(canigo::key_view<Key>) const noexcept`");
  using table = key_table<Key, key_state>;
  using entry = typename table::entry;

  struct alignas(64) shard {
    mutable mutex lock;
    table keys;
    key_room* first_room = nullptr;
    std::size_t rooms = 0;
    std::uint64_t granted = 0, refused = 0, given_up = 0, beyond = 0, forgotten = 0;
  };

  /// A user of a key_room, which holds the engine of one key. The engine lives as long as the room has a user.
  class seat {
   public:
    /// Registers a user of the room `r`. Call it under the lock of the shard `s`.
    seat(keyed_core& core, shard& s, key_room& r) noexcept : core_{&core}, shard_{&s}, room_{&r} { ++r.users; }
    seat(seat&& other) noexcept
        : core_{std::exchange(other.core_, nullptr)}, shard_{other.shard_}, room_{other.room_} {}
    seat& operator=(seat&&) = delete;
    ~seat() {
      if (core_ != nullptr) core_->leave(*shard_, *room_);
    }
    admission& engine() const noexcept { return *room_->engine; }

   private:
    keyed_core* core_;
    shard* shard_;
    key_room* room_;
  };

  /// Counts a coroutine as a waiter until this object is destroyed.
  class waiting_one {
   public:
    /// Precondition: claim_waiter() has counted the waiter.
    waiting_one(keyed_core& core, std::uint64_t hash) noexcept : core_{core}, hash_{hash} {}
    waiting_one(const waiting_one&) = delete;
    waiting_one& operator=(const waiting_one&) = delete;
    ~waiting_one() {
      core_.give_up_waiter();
      shard& s = core_.shard_of(hash_);
      const std::lock_guard lock{s.lock};
      ++(is_granted ? s.granted : s.given_up);
    }
    bool is_granted = false;

   private:
    keyed_core& core_;
    std::uint64_t hash_;
  };

 public:
  using options = keyed_setup<Limit>;

  /// Returns a core with one reference, which close() releases.
  static keyed_core* open(const net::any_io_executor& executor, const options& o, const Hash& hash) {
    auto* core = new keyed_core{executor, o, hash};
    core->join();
    try {
      if (o.on_new_key == overflow_of_keys::share_one) core->shared_ = core->open_engine(o.limit.make_supplies());
    } catch (...) {
      core->release_ref();
      throw;
    }
    return core;
  }
  void close() noexcept {
    stop();
    this->release_ref();
  }

  /// How try_acquire() decided a request: not granted, granted by the key's own limit, or granted by the shared limit.
  enum class grant { none, own, shared };

  /// Takes the tokens or permits if they are available and the key has no waiters. Throws std::system_error for a
  /// request that can never be granted, and std::bad_alloc if there is no memory for a new key.
  grant try_acquire(view key, const request& r) {
    this->check(r);
    const time_point now = this->now();
    if (this->is_stopped() || r.deadline < now) return grant::none;
    const std::uint64_t hash = hash_(key);
    std::optional<seat> in_room;
    const std::optional<bool> granted = at(key, hash, now, [&](shard& s, entry* e) -> std::optional<bool> {
      if (e == nullptr) return std::nullopt;
      if (!e->value.is_room()) return count(s, limit_.try_take(e->value.level(), now, r.tokens));
      in_room.emplace(*this, s, *e->value.room());
      return std::nullopt;
    });
    if (granted) return *granted ? grant::own : grant::none;
    admission* engine = in_room ? &in_room->engine() : shared_.get();
    const bool is_granted = engine != nullptr && engine->try_enter(r) == outcome::granted;
    shard& s = shard_of(hash);
    {
      const std::lock_guard lock{s.lock};
      count(s, is_granted);
    }
    return !is_granted ? grant::none : in_room ? grant::own : grant::shared;
  }

  /// Waits until the request is granted. `Result` is void or the permit of the key.
  template <class Result>
  static net::awaitable<Result> acquire(keyed_ref<keyed_core> core, Key key, request r) {
    core->check(r);
    if (core->is_loop_due()) co_await sleep_until(time_point::min());
    const std::uint64_t hash = core->hash_(key);
    bool is_shared = false;
    errc refused{};
    if (std::optional<seat> own; !core->enter(key, hash, r, own, refused)) {
      is_shared = !own;
      if (refused != errc{}) throw std::system_error{refused};
      waiting_one w{*core.get(), hash};
      co_await wait_for<plain_waiter>(own ? &own->engine() : core->shared_.get(), r);
      w.is_granted = true;
    }
    if constexpr (!std::is_void_v<Result>) {
      co_return Result{keyed_ref<keyed_home<Key>>{*core.get()}, std::move(key), r.tokens, is_shared};
    }
  }

  /// Like acquire() above, but stores the error in `*error`. If the table or the queue is full, no exception is thrown.
  /// If an argument is invalid, this function catches the exception.
  template <class Result>
  static net::awaitable<Result> acquire(keyed_ref<keyed_core> core, Key key, request r, std::error_code* error) {
    bool is_shared = false;
    *error = {};
    try {
      core->check(r);
      if (core->is_loop_due()) co_await sleep_until(time_point::min());
      const std::uint64_t hash = core->hash_(key);
      errc refused{};
      if (std::optional<seat> own; !core->enter(key, hash, r, own, refused)) {
        is_shared = !own;
        if (refused != errc{}) {
          *error = refused;
        } else {
          waiting_one w{*core.get(), hash};
          co_await try_to_wait_for<plain_waiter>(own ? &own->engine() : core->shared_.get(), r, error);
          w.is_granted = !*error;
        }
      }
    } catch (const std::system_error& e) {
      *error = e.code();
    } catch (const std::bad_alloc&) {
      *error = errc::not_enough_memory;
    }
    if constexpr (!std::is_void_v<Result>) {
      if (*error) co_return Result{};
      co_return Result{keyed_ref<keyed_home<Key>>{*core.get()}, std::move(key), r.tokens, is_shared};
    }
  }

  void give_back(view key, std::uint64_t places, bool is_shared) noexcept override {
    if (is_shared) return shared_->release(places);
    const std::uint64_t hash = hash_(key);
    shard& s = shard_of(hash);
    std::optional<seat> in_room;
    {
      const std::lock_guard lock{s.lock};
      entry& e = *s.keys.find(in_table(hash), key);
      if (e.value.is_room()) {
        in_room.emplace(*this, s, *e.value.room());
      } else if ((e.value.level().taken -= places) == 0) {
        erase(s, e);
      }
    }
    if (in_room) in_room->engine().release(places);
  }

  /// The min time, counted from now, until a request of the key can be granted.
  duration retry_after(view key, const request& r) {
    this->check(r);
    const time_point now = this->now();
    const std::uint64_t hash = hash_(key);
    shard& s = shard_of(hash);
    std::optional<seat> in_room;
    bool is_known = false;
    {
      const std::lock_guard lock{s.lock};
      if (entry* e = s.keys.find(in_table(hash), key)) {
        is_known = true;
        if (!e->value.is_room()) return limit_.bucket(e->value.level()).ready_at(now, r.tokens) - now;
        in_room.emplace(*this, s, *e->value.room());
      }
    }
    if (in_room) return in_room->engine().estimate(r);
    if (is_known || !this->is_full()) return duration::zero();
    return shared_ ? shared_->estimate(r) : limit_.full.rate().time_for(1);
  }

  void stop() noexcept {
    this->note_stopped();
    if (shared_) shared_->stop();
    for (std::size_t i = 0; i < shards_count_; ++i) {
      while (std::optional<seat> one = next_to_stop(shards_[i])) one->engine().stop();
    }
  }

  keyed_stats stats() const noexcept {
    keyed_stats all;
    all.most_keys = this->most_keys();
    all.waiting = this->waiting();
    for (std::size_t i = 0; i < shards_count_; ++i) {
      const shard& s = shards_[i];
      const std::lock_guard lock{s.lock};
      all.keys += s.keys.size();
      all.keys_with_waiters += s.rooms;
      all.granted += s.granted;
      all.refused += s.refused;
      all.given_up += s.given_up;
      all.beyond += s.beyond;
      all.forgotten += s.forgotten;
      all.bytes += s.keys.bytes();
    }
    return all;
  }

 private:
  static constexpr int shard_bits = 6;
  // If a limit can have fewer keys than this number, one shard is sufficient.
  static constexpr std::size_t many_keys = std::size_t{64} << shard_bits;
  // The max number of table slots that a request with a new key examines, to find keys to drop. This number is greater
  // while the table is full. It bounds the time of such a request, even if an attacker sends many new keys.
  static constexpr std::size_t places_per_new_key = 2;
  static constexpr std::size_t places_when_full = 16;

  keyed_core(const net::any_io_executor& executor, const options& o, const Hash& hash)
      : keyed_home<Key>{executor, o.bounds, o.queue, o.largest_request},
        limit_{o.limit},
        hash_{hash},
        shards_count_{o.bounds.most_keys < many_keys ? 1 : std::size_t{1} << shard_bits},
        shards_{std::make_unique<shard[]>(shards_count_)} {}
  ~keyed_core() override = default;

  shard& shard_of(std::uint64_t hash) const noexcept {
    return shards_[static_cast<std::size_t>((uint128{hash} * shards_count_) >> 64)];
  }
  /// The hash of a key for the table of its shard. The bits are rotated, because the bits that choose the shard must
  /// not choose the slot, too.
  static std::uint64_t in_table(std::uint64_t hash) noexcept { return std::rotl(hash, shard_bits); }

  static bool count(shard& s, bool is_granted) noexcept {
    ++(is_granted ? s.granted : s.refused);
    return is_granted;
  }

  void count_refusal(std::uint64_t hash) noexcept {
    shard& s = shard_of(hash);
    const std::lock_guard lock{s.lock};
    ++s.refused;
  }

  /// Calls `f` under the lock of the key's shard, with the key's entry. The entry is nullptr if the key is new and the
  /// table is full.
  template <class Function>
  auto at(view key, std::uint64_t hash, time_point now, Function&& f) {
    shard& s = shard_of(hash);
    {
      const std::lock_guard lock{s.lock};
      if (entry* e = find_or_insert(s, hash, key, now)) return f(s, e);
    }
    const bool has_room = forget_elsewhere(now);
    const std::lock_guard lock{s.lock};
    entry* e = has_room ? find_or_insert(s, hash, key, now) : nullptr;
    if (e == nullptr) ++s.beyond;
    return f(s, e);
  }

  entry* find_or_insert(shard& s, std::uint64_t hash, view key, time_point now) {
    if (entry* e = s.keys.find(in_table(hash), key)) return e;
    forget(s, this->is_full() ? places_when_full : places_per_new_key, now);
    if (!this->claim_key()) return nullptr;
    try {
      if (s.keys.is_crowded()) make_space(s, now);
      return &s.keys.insert(in_table(hash), key, key_state{limit_.fresh(now)});
    } catch (...) {
      this->give_up_keys(1);
      throw;
    }
  }

  /// Examines the next `places` slots of the table. Erases the keys there whose state equals that of a new key, and
  /// returns their number.
  std::size_t forget(shard& s, std::size_t places, time_point now) noexcept {
    const std::size_t n = s.keys.sweep(
        places, [&](const entry& e) { return !e.value.is_room() && limit_.is_fresh(e.value.level(), now); });
    s.forgotten += n;
    if (n > 0) this->give_up_keys(n);
    return n;
  }

  bool forget_elsewhere(time_point now) noexcept {
    shard& s = shards_[next_swept_.fetch_add(1, std::memory_order_relaxed) % shards_count_];
    if (!s.lock.try_lock()) return false;
    const std::lock_guard lock{s.lock, std::adopt_lock};
    return forget(s, places_when_full, now) > 0;
  }

  /// Frees slots of a crowded table: drops the keys whose state equals that of a new key. If this frees at most an
  /// eighth of the slots, grows the table.
  void make_space(shard& s, time_point now) {
    const std::size_t places = s.keys.capacity();
    if (forget(s, places, now) <= places / 8) {
      s.keys.grow([this](const Key& k) { return in_table(hash_(k)); });
    }
  }

  void erase(shard& s, entry& e) noexcept {
    s.keys.erase(e);
    this->give_up_keys(1);
  }

  /// Takes the tokens or permits if they are available, and returns true. Otherwise returns false, and either sets
  /// `refused` or counts the request as a waiter. A waiter with `own` set waits at the engine of its key. A waiter
  /// without `own` waits at the shared engine, because the table is full. An error that has no errc is thrown.
  bool enter(const Key& key, std::uint64_t hash, const request& r, std::optional<seat>& own, errc& refused) {
    if (try_to_enter(key, hash, r, own, refused)) return true;
    if (refused == errc{} && !this->claim_waiter()) refused = errc::queue_full;
    if (refused != errc{}) count_refusal(hash);
    return false;
  }

  bool try_to_enter(const Key& key, std::uint64_t hash, const request& r, std::optional<seat>& own, errc& refused) {
    enum class step { granted, waits, needs_room, beyond, stopped };
    engine_owner prepared;
    std::unique_ptr<key_room> room;
    for (;;) {
      const time_point now = this->now();
      if (r.deadline < now) {
        refused = errc::deadline_unreachable;
        return false;
      }
      const step next = at(key, hash, now, [&](shard& s, entry* e) {
        if (this->is_stopped()) return step::stopped;
        if (e == nullptr) return step::beyond;
        if (!e->value.is_room()) {
          if (limit_.try_take(e->value.level(), now, r.tokens)) {
            ++s.granted;
            return step::granted;
          }
          if (!prepared) return step::needs_room;
          open_room(s, *e, *room, prepared);
          room.release();
        }
        own.emplace(*this, s, *e->value.room());
        return step::waits;
      });
      switch (next) {
        case step::granted:
          return true;
        case step::waits:
          return false;
        case step::needs_room:
          prepared = this->open_engine(limit_.make_supplies());
          room = std::make_unique<key_room>();
          room->hash = hash;
          break;
        case step::beyond:
          if (!shared_) refused = errc::too_many_keys;
          return false;
        case step::stopped:
          refused = errc::stopped;
          return false;
      }
    }
  }

  /// Opens the room of a key, in which its requests can wait: moves the key's level from the table into the engine of
  /// the room. Called under the lock of the shard.
  void open_room(shard& s, entry& e, key_room& r, engine_owner& engine) noexcept {
    limit_.hand_over(*engine.get(), e.value.level());
    r.engine = engine.release();
    r.next = s.first_room;
    if (s.first_room != nullptr) s.first_room->previous = &r;
    s.first_room = &r;
    ++s.rooms;
    e.value.enter(r);
  }

  /// Removes a user of a key_room, which holds the engine of one key. The last user closes the engine and moves the
  /// key's level back into the table.
  void leave(shard& s, key_room& r) noexcept {
    const time_point now = this->now();
    {
      const std::lock_guard lock{s.lock};
      if (--r.users > 0) return;
      entry& e = *s.keys.find_if(in_table(r.hash), [&r](const entry& other) { return other.value.room() == &r; });
      e.value = key_state{limit_.take_back(*r.engine)};
      if (limit_.is_fresh(e.value.level(), now)) erase(s, e);
      if (r.next != nullptr) r.next->previous = r.previous;
      (r.previous != nullptr ? r.previous->next : s.first_room) = r.next;
      --s.rooms;
    }
    r.engine->close();
    delete &r;
  }

  std::optional<seat> next_to_stop(shard& s) noexcept {
    const std::lock_guard lock{s.lock};
    for (key_room* r = s.first_room; r != nullptr; r = r->next) {
      if (!std::exchange(r->is_told_to_stop, true)) return seat{*this, s, *r};
    }
    return std::nullopt;
  }

  const Limit limit_;
  const Hash hash_;
  engine_owner shared_;  // the engine of all new keys while the table is full; null: a full table refuses new keys
  std::atomic<std::size_t> next_swept_{0};
  const std::size_t shards_count_;
  const std::unique_ptr<shard[]> shards_;
};

}  // namespace canigo::detail
