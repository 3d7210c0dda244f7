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

// The calls of a channel, in the types of its values. They see nothing of the engine but a channel_port.

namespace canigo::detail {

class channel_group;
class channel_port;

/// A value on its way through a channel. As a node of a wait_queue it has its class in `priority`, and its bytes in
/// `tokens`. The channel moves nodes; only code outside of its lock touches the values in them.
class channel_node : public wait_node {
 public:
  virtual ~channel_node() = default;
  /// The send begins: takes a borrowed value from its place.
  virtual void fetch() noexcept = 0;
  /// It was not sent: a borrowed value goes back to its place.
  virtual void restore() noexcept = 0;

 private:
  friend class channel_nodes;
  friend class node_list;
  channel_node* next_ = nullptr;
};

/// A node that some code has for itself.
using owned_node = std::unique_ptr<channel_node>;

/// A node with room for a T.
template <class T>
class value_node final : public channel_node {
 public:
  value_node() noexcept {}
  ~value_node() override {
    if (has_value_) value().~T();
  }

  void put(T&& value) noexcept {
    ::new (static_cast<void*>(storage_)) T(std::move(value));
    has_value_ = true;
  }
  /// For a value that stays at its place until fetch(), and comes back if it is not sent.
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
  void clear() noexcept {
    value().~T();
    has_value_ = false;
    from_ = nullptr;
  }

 private:
  alignas(T) std::byte storage_[sizeof(T)];
  T* from_ = nullptr;
  bool has_value_ = false;
};

/// A caller that waits for room in a channel, or for a value of it.
class channel_waiter : public suspended, public wait_node {
 public:
  /// `value`: where a sender has its value, until the channel takes it; nullptr: this is a receiver.
  channel_waiter(channel_port& c, bool at_home, bool holds_work, owned_node* value) noexcept;

  void request_cancel() noexcept;
  /// The caller gets no result. A value that was promised to this receiver goes to the next one.
  void abandon() noexcept;
  const net::any_io_executor& home_executor() const noexcept;

 protected:
  ~channel_waiter() = default;
  /// Gives up the reference to the engine that a waiter has which is foreign, or pushed.
  void let_go_of_engine() noexcept;

  channel_port* channel_;  // stays while this is queued, or has a value promised
  outcome outcome_ = outcome::granted;

 private:
  friend class channel_group;
  friend class channel_core;
  enum class state : std::uint8_t { fresh, queued, ending };

  channel_group* group_;
  owned_node* value_;
  state state_ = state::fresh;
  const bool at_home_;     // completes on the executor of the channel
  const bool holds_work_;  // the engine keeps the loop running for it
};

/// Waits for room, for a caller that came with a completion token.
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

/// Waits for room or for a value, for a coroutine whose frame has the value and the outcome. A value that is promised
/// to it stays promised.
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

/// The counts of a channel, of one moment.
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

/// The engine of a channel, as its calls see it.
class channel_port {
 public:
  channel_port(const channel_port&) = delete;
  channel_port& operator=(const channel_port&) = delete;

  virtual const net::any_io_executor& executor() const noexcept = 0;
  /// The handle is gone: ends all who wait, and drops the values that are promised to no receiver.
  virtual void abandon() noexcept = 0;

  /// A node to be filled; nullptr: make one.
  virtual owned_node spare_node() noexcept = 0;
  virtual void keep_node(owned_node n) noexcept = 0;

  /// Takes `n` in, with this class and its `tokens` as bytes, if that needs no wait. Otherwise `n` stays.
  virtual outcome try_send(owned_node& n, int priority) noexcept = 0;
  /// Like try_send(), and lets `w`, which has the value, wait for room. Ends by a post, always.
  virtual void send(channel_waiter& w, int priority) noexcept = 0;
  /// The most important value, if one is there that is promised to no receiver. Otherwise nullptr, and `why`.
  virtual owned_node try_receive(outcome& why) noexcept = 0;
  /// Lets `w` wait until a value is promised to it. Ends by a post, always.
  virtual void receive(channel_waiter& w) noexcept = 0;
  /// Takes the value that was promised to a receiver. Then done() must follow.
  virtual owned_node take_promised() noexcept = 0;
  /// Takes back the node of such a value. This may be gone then.
  virtual void done(owned_node n) noexcept = 0;
  /// Ends `w`, which did not come to wait, by a post.
  virtual void fail(channel_waiter& w, outcome o) noexcept = 0;

  /// Senders end with errc::closed, and so do receivers once no value is left.
  virtual void close() noexcept = 0;
  virtual bool is_closed() const noexcept = 0;
  virtual channel_counts counts() const noexcept = 0;
  /// For the texts of errors; null: it has none.
  virtual const std::shared_ptr<const std::string>& name() const noexcept = 0;

  /// This stays from hold() to let_go().
  virtual void hold() noexcept = 0;
  virtual void let_go() noexcept = 0;

  /// Whether a coroutine that never waits is to pass through the event loop, for the sake of other handlers.
  bool takes_turn() noexcept {
    const unsigned n = calls_.load(std::memory_order_relaxed) + 1u;
    calls_.store(n > calls_in_a_row ? 0 : n, std::memory_order_relaxed);
    return n > calls_in_a_row;
  }

 protected:
  channel_port() = default;
  ~channel_port() = default;

 private:
  static constexpr unsigned calls_in_a_row = 128;
  atomic<unsigned> calls_{0};
};

/// The options of a channel without its type, unchecked.
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

/// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
channel_port* open_channel(const net::any_io_executor& executor, const channel_setup& s);

/// The body of try_send(). If it fails, the value goes back to where it came from.
bool try_send_node(channel_port& c, owned_node& n, int priority);

/// Keeps a channel until it is destroyed.
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

/// Lets a coroutine pass through the event loop. The channel must be held meanwhile.
net::awaitable<void> pass_through_loop(channel_port& held);
/// A co_await has thrown before it began: the coroutine was cancelled, or there is no memory.
outcome why_not_started(const std::exception_ptr& e) noexcept;
/// Waits for room with the value in `value`, or for a value to be promised if there is none.
net::awaitable<void> wait_in_frame(channel_port* c, owned_node* value, int priority, outcome* how);
/// The body of every send(). Tells by `error`, or throws if that is null. An empty `value` stands for no memory.
net::awaitable<void> send_node(channel_port* c, owned_node value, int priority, std::error_code* error);
/// Throws how a wait of a channel of this name ended.
[[noreturn]] void throw_end(const std::shared_ptr<const std::string>& name, outcome o);

template <class T>
T value_out_of(channel_node& n) noexcept {
  auto& filled = static_cast<value_node<T>&>(n);
  T v = std::move(filled.value());
  filled.clear();
  return v;
}

/// Takes the value that was promised to a receiver of `c`, which may be gone then.
template <class T>
T take_promised_value(channel_port& c) noexcept {
  owned_node n = c.take_promised();
  T v = value_out_of<T>(*n);
  c.done(std::move(n));
  return v;
}

/// Waits for a value, for a caller that came with a completion token.
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

/// Initiates a send of a caller that came with a completion token.
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

/// Initiates a receive of a caller that came with a completion token.
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

/// The body of receive().
template <class T>
net::awaitable<T> receive_value(channel_port* c) {
  held_core hold;
  if (c->takes_turn()) co_await pass_through_loop(hold.keep(*c));
  outcome o = outcome::must_wait;
  owned_node n = c->try_receive(o);
  if (n == nullptr) {
    const std::shared_ptr<const std::string> name = c->name();
    if (o == outcome::must_wait) co_await wait_in_frame(c, nullptr, 0, &o);
    if (o != outcome::granted) throw_end(name, o);
    co_return take_promised_value<T>(*c);
  }
  T v = value_out_of<T>(*n);
  c->keep_node(std::move(n));
  co_return std::move(v);
}

/// Like receive_value(), with an error code instead of exceptions.
template <class T>
net::awaitable<std::optional<T>> try_to_receive_value(channel_port* c, std::error_code* error) {
  outcome o = outcome::granted;
  std::optional<T> v;
  try {
    held_core hold;
    if (c->takes_turn()) co_await pass_through_loop(hold.keep(*c));
    if (owned_node n = c->try_receive(o); n != nullptr) {
      v.emplace(value_out_of<T>(*n));
      c->keep_node(std::move(n));
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
