#pragma once

#include "canigo/detail/admission/waiter.hpp"
#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/associated_executor.hpp>
#include <asio/awaitable.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

// The functions of a channel are templates over the type of the channel's values. They use the channel's engine only
// through channel_port.

namespace canigo::detail {

class channel_group;
class channel_port;

/// A value that passes through a channel. `priority` is its priority class, and `tokens` its size in bytes. The channel
/// moves nodes under its lock. The values in the nodes are used only without the lock.
class channel_node : public wait_node {
 public:
  virtual ~channel_node() = default;
  /// Called when the send begins. If borrow() was called, moves the caller's value into the node.
  virtual void fetch() noexcept = 0;
  /// Called when the send failed. If borrow() was called, moves the value back to the caller.
  virtual void restore() noexcept = 0;
  /// Whether the node holds no value, and no thread is still moving a value out of the node.
  bool is_empty() const noexcept { return !has_value_.load(std::memory_order_acquire); }

 protected:
  atomic<bool> has_value_{false};

 private:
  friend class channel_core;
  friend class node_list;
  channel_node* next_ = nullptr;
};

/// A pointer that owns a node, and destroys it.
using owned_node = std::unique_ptr<channel_node>;

/// A node with storage for a T.
template <class T>
class value_node final : public channel_node {
 public:
  value_node() noexcept {}
  ~value_node() override {
    if (!is_empty()) value().~T();
  }

  void put(T&& value) noexcept {
    ::new (static_cast<void*>(storage_)) T(std::move(value));
    has_value_.store(true, std::memory_order_relaxed);
  }
  /// Makes the node refer to a value of the caller. fetch() moves the value into the node, and restore() moves it back.
  void borrow(T& value) noexcept { from_ = std::addressof(value); }
  void fetch() noexcept override {
    if (from_ != nullptr) put(std::move(*from_));
  }
  void restore() noexcept override {
    if (T* const to = std::exchange(from_, nullptr)) {
      if constexpr (std::is_nothrow_move_assignable_v<T>) {
        *to = std::move(value());
      } else {
        std::destroy_at(to);
        std::construct_at(to, std::move(value()));
      }
      clear();
    }
  }
  T& value() noexcept { return *std::launder(reinterpret_cast<T*>(storage_)); }
  /// As soon as the last statement of clear() has run, another thread may fill the node.
  void clear() noexcept {
    value().~T();
    from_ = nullptr;
    has_value_.store(false, std::memory_order_release);
  }

 private:
  alignas(T) std::byte storage_[sizeof(T)];
  T* from_ = nullptr;
};

/// A caller that waits for room in a channel, or for a value.
class channel_waiter : public suspended, public wait_node {
 public:
  /// `value`: for a sender, its pointer to the node with the value to send; the channel moves the node out of this
  /// pointer. For a receiver: nullptr.
  channel_waiter(channel_port& c, bool at_home, bool holds_work, owned_node* value) noexcept;

  void request_cancel() noexcept;
  /// Called if the caller gets no result. A value that was assigned to this receiver goes to the next receiver.
  void abandon() noexcept;
  const net::any_io_executor& home_executor() const noexcept;

 protected:
  ~channel_waiter() = default;
  /// Releases the reference to the engine. A waiter has such a reference if its handler has another executor than the
  /// engine, or if the waiter was pushed to a pump (a work-stealing queue).
  void let_go_of_engine() noexcept;

  channel_port* channel_;  // the engine; valid while this waiter is queued, or has a value assigned
  outcome outcome_ = outcome::granted;

 private:
  friend class channel_group;
  friend class channel_core;
  enum class state : std::uint8_t { fresh, queued, ending };

  channel_group* group_;
  owned_node* value_;
  state state_ = state::fresh;
  const bool at_home_;     // whether the handler has the executor of the channel
  const bool holds_work_;  // whether the engine keeps the loop running for this waiter
};

/// The waiter of an asynchronous send with a completion token. It waits for room in the channel.
class sending : public channel_waiter {
 public:
  sending(channel_port& c, bool at_home, bool holds_work, owned_node&& value) noexcept
      : channel_waiter{c, at_home, holds_work, &own_}, own_{std::move(value)} {}

  using results = std::tuple<std::error_code>;
  results take_results() noexcept {
    let_go_of_engine();
    return {to_error_code(outcome_)};
  }
  static results failed(errc code) noexcept { return {make_error_code(code)}; }

 private:
  owned_node own_;
};

/// The waiter of a coroutine that waits for room or for a value. The coroutine's frame holds the value and the outcome.
/// A value that was assigned to this waiter stays assigned until the coroutine takes it.
class waiting_in_frame : public channel_waiter {
 public:
  waiting_in_frame(channel_port& c, bool at_home, owned_node* value, outcome* how) noexcept
      : channel_waiter{c, at_home, false, value}, how_{how} {}

  std::tuple<> take_results() noexcept {
    *how_ = outcome_;
    let_go_of_engine();
    return {};
  }

 private:
  outcome* how_;
};

/// The counts of a channel at one instant.
struct channel_counts {
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  std::size_t senders = 0;
  std::size_t receivers = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t refused = 0;
  std::uint64_t capacity = 0;
  std::uint64_t most_bytes = 0;
};

/// The interface by which the functions of a channel use the channel's engine.
class channel_port {
 public:
  channel_port(const channel_port&) = delete;
  channel_port& operator=(const channel_port&) = delete;

  virtual const net::any_io_executor& executor() const noexcept = 0;
  /// Called by the destructor of canigo::channel: ends all waiters, and drops the values that are not assigned to a
  /// receiver.
  virtual void abandon() noexcept = 0;

  /// Returns an empty node for reuse; if it returns nullptr, the caller must make a node.
  owned_node spare_node() noexcept {
    owned_node n;
    if (next_node_.load(std::memory_order_relaxed) != nullptr) {
      n.reset(next_node_.exchange(nullptr, std::memory_order_acquire));
    }
    return n != nullptr && n->is_empty() ? std::move(n) : other_spare_node(std::move(n));
  }
  /// Takes back a node whose value was not sent. The channel keeps the node for reuse.
  virtual void keep_node(owned_node n) noexcept = 0;

  /// Sends the value in `n`, with this priority class and `n->tokens` bytes, if the send needs no wait. Otherwise `n`
  /// keeps the node.
  virtual outcome try_send(owned_node& n, int priority) noexcept = 0;
  /// Like try_send(), for the value that the waiter `w` has. If there is no room, `w` waits for room. The completion of
  /// `w` is always posted.
  virtual void send(channel_waiter& w, int priority) noexcept = 0;
  /// Returns the most important value that is not assigned to a receiver. If there is none, returns nullptr and sets
  /// `why`.
  ///
  /// The returned node already belongs to the channel again. The caller must move the value out immediately.
  virtual channel_node* try_receive(outcome& why) noexcept = 0;
  /// Makes `w` wait until a value is assigned to it. The completion of `w` is always posted.
  virtual void receive(channel_waiter& w) noexcept = 0;
  /// Returns the node of the value that was assigned to a receiver. As with try_receive(), the caller must move the
  /// value out immediately. The caller must then call let_go().
  virtual channel_node& take_promised() noexcept = 0;
  /// Ends the waiter `w`, which could not begin to wait, with the outcome `o`. The completion of `w` is always posted.
  virtual void fail(channel_waiter& w, outcome o) noexcept = 0;

  /// Closes the channel: senders end with errc::closed, and receivers end with errc::closed when no value is left.
  virtual void close() noexcept = 0;
  virtual bool is_closed() const noexcept = 0;
  virtual channel_counts counts() const noexcept = 0;
  /// The name of the channel for error messages; null: none.
  virtual const std::shared_ptr<const std::string>& name() const noexcept = 0;

  /// Keeps the engine alive until let_go(), which may destroy the engine.
  virtual void hold() noexcept = 0;
  virtual void let_go() noexcept = 0;

  /// Whether a coroutine whose calls never wait must now pass through the event loop, so that other handlers run.
  bool takes_turn() noexcept {
    const unsigned n = calls_.load(std::memory_order_relaxed) + 1u;
    calls_.store(n > calls_in_a_row ? 0 : n, std::memory_order_relaxed);
    return n > calls_in_a_row;
  }

 protected:
  channel_port() = default;
  ~channel_port() = default;
  /// Returns an empty node, or nullptr if the channel has none. `busy` is a node that is not empty yet, or nullptr. The
  /// channel keeps `busy` for later.
  virtual owned_node other_spare_node(owned_node busy) noexcept = 0;

  // a node for reuse, which may not be empty yet; taken without the lock, stored under the lock
  atomic<channel_node*> next_node_{nullptr};

 private:
  static constexpr unsigned calls_in_a_row = 128;
  atomic<unsigned> calls_{0};
};

/// The options of a channel, before they are checked. They do not depend on the type of the channel's values.
struct channel_setup {
  std::uint64_t capacity = 0;
  std::uint64_t bytes = 0;
  std::uint64_t reserved_capacity = 0;
  std::uint64_t reserved_bytes = 0;
  channel_group* shared = nullptr;
  bool has_size = false;
  int priorities = 1;
  std::size_t queue_limit = 0;
  const std::string* name = nullptr;
};

/// Throws std::system_error (errc::invalid_argument) if an option is out of range. The text names the option and the
/// range.
channel_port* open_channel(const net::any_io_executor& executor, const channel_setup& s);

/// The implementation of channel::try_send(). The node `n` holds the value. If the send fails, and the value was
/// borrowed, moves the value back to the caller.
bool try_send_node(channel_port& c, owned_node& n, int priority);

/// Calls hold() of a channel in the constructor, and let_go() in the destructor.
class held_core {
 public:
  held_core() noexcept = default;
  held_core(const held_core&) = delete;
  held_core& operator=(const held_core&) = delete;
  ~held_core() {
    if (core_ != nullptr) core_->let_go();
  }
  channel_port& keep(channel_port& c) noexcept {
    c.hold();
    core_ = &c;
    return c;
  }

 private:
  channel_port* core_ = nullptr;
};

/// Posts the coroutine to its executor, so that other handlers run first. The caller must keep the channel alive
/// meanwhile by hold().
net::awaitable<void> pass_through_loop(channel_port& held);
/// The outcome for a co_await that threw before it began: the coroutine was cancelled, or there was no memory.
outcome why_not_started(const std::exception_ptr& e) noexcept;
/// Waits for room for the node in `*value`; if `value` is null, waits until a value is assigned.
net::awaitable<void> wait_in_frame(channel_port* c, owned_node* value, int priority, outcome* how);
/// The body of every send(). Sets `*error`, or throws if `error` is null. `value` is null if there was no memory for
/// its node.
net::awaitable<void> send_node(channel_port* c, owned_node value, int priority, std::error_code* error);
/// Throws an exception for the outcome `o` of a wait at a channel. `name`: the channel's name for the exception's text,
/// or null.
[[noreturn]] void throw_end(const std::shared_ptr<const std::string>& name, outcome o);

template <class T>
T value_out_of(channel_node& n) noexcept {
  auto& filled = static_cast<value_node<T>&>(n);
  T v = std::move(filled.value());
  filled.clear();
  return v;
}

/// Takes the value that was assigned to a receiver of `c`. The channel may be destroyed during this call.
template <class T>
T take_promised_value(channel_port& c) noexcept {
  T v = value_out_of<T>(c.take_promised());
  c.let_go();
  return v;
}

/// The waiter of an asynchronous receive with a completion token. It waits for a value.
template <class T>
class receiving : public channel_waiter {
 public:
  receiving(channel_port& c, bool at_home, bool holds_work) noexcept
      : channel_waiter{c, at_home, holds_work, nullptr} {}

  using results = std::tuple<std::error_code, std::optional<T>>;
  results take_results() noexcept {
    std::optional<T> v;
    if (outcome_ == outcome::granted) v.emplace(take_promised_value<T>(*channel_));
    let_go_of_engine();
    return {to_error_code(outcome_), std::move(v)};
  }
  static results failed(errc code) noexcept { return {make_error_code(code), std::nullopt}; }
};

/// Starts a send for a caller with a completion token.
struct start_sending {
  channel_port* channel;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return channel->executor(); }

  template <class Handler>
  void operator()(Handler&& handler, owned_node value, int priority) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    const net::any_io_executor& own = channel->executor();
    const bool at_home = handler_completes_at<decltype(h)>(own, net::get_associated_executor(h, own));
    const bool has_value = value != nullptr;
    const auto begin = [&](channel_waiter& w, bool has_memory) noexcept {
      if (has_memory && has_value) {
        channel->send(w, priority);
      } else {
        channel->fail(w, to_outcome(errc::not_enough_memory));
      }
    };
    initiate<sending>(h, own, begin, *channel, at_home, !has_own_executor<decltype(h)>, std::move(value));
  }
};

/// Starts a receive for a caller with a completion token.
template <class T>
struct start_receiving {
  channel_port* channel;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return channel->executor(); }

  template <class Handler>
  void operator()(Handler&& handler) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    const net::any_io_executor& own = channel->executor();
    const bool at_home = handler_completes_at<decltype(h)>(own, net::get_associated_executor(h, own));
    const auto begin = [this](channel_waiter& w, bool has_memory) noexcept {
      if (has_memory) {
        channel->receive(w);
      } else {
        channel->fail(w, to_outcome(errc::not_enough_memory));
      }
    };
    initiate<receiving<T>>(h, own, begin, *channel, at_home, !has_own_executor<decltype(h)>);
  }
};

/// The body of channel::receive().
template <class T>
net::awaitable<T> receive_value(channel_port* c) {
  held_core hold;
  if (c->takes_turn()) co_await pass_through_loop(hold.keep(*c));
  outcome o = outcome::must_wait;
  channel_node* const n = c->try_receive(o);
  if (n == nullptr) {
    const std::shared_ptr<const std::string> name = c->name();
    if (o == outcome::must_wait) co_await wait_in_frame(c, nullptr, 0, &o);
    if (o != outcome::granted) throw_end(name, o);
    co_return take_promised_value<T>(*c);
  }
  co_return value_out_of<T>(*n);
}

/// Like receive_value(), but reports errors in `*error` instead of throwing.
template <class T>
net::awaitable<std::optional<T>> try_to_receive_value(channel_port* c, std::error_code* error) {
  outcome o = outcome::granted;
  std::optional<T> v;
  try {
    held_core hold;
    if (c->takes_turn()) co_await pass_through_loop(hold.keep(*c));
    if (channel_node* const n = c->try_receive(o); n != nullptr) {
      v.emplace(value_out_of<T>(*n));
    } else {
      if (o == outcome::must_wait) co_await wait_in_frame(c, nullptr, 0, &o);
      if (o == outcome::granted) v.emplace(take_promised_value<T>(*c));
    }
  } catch (...) {
    o = why_not_started(std::current_exception());
  }
  *error = to_error_code(o);
  co_return std::move(v);
}

}  // namespace canigo::detail
