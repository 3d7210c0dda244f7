#pragma once

#include "canigo/detail/channel/channel_call.hpp"
#include "canigo/detail/context/misuse.hpp"
#include "canigo/net.hpp"
#include "canigo/rate.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/use_awaitable.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace canigo {

struct channel_capacity_options {
  std::uint64_t capacity = unlimited;  ///< max number of values in all channels together; 1 or more
  /// max total size of the values in bytes; 1 or more; set `capacity`, `bytes` or both
  std::uint64_t bytes = unlimited;
};

/// The statistics of a shared capacity.
struct channel_capacity_stats {
  std::uint64_t items = 0;     ///< number of values in all channels
  std::uint64_t bytes = 0;     ///< total size of the values in bytes
  std::size_t channels = 0;    ///< number of channels that share the capacity
  std::size_t senders = 0;     ///< number of senders that wait for room, in all channels together
  std::uint64_t capacity = 0;  ///< max number of values in all channels; 2^62 means unlimited
  std::uint64_t most_bytes = 0;
};

/// One capacity that bounds the values of several channels together:
///
///     canigo::channel_capacity memory{io, {.bytes = 64 << 20}};
///     canigo::channel<chunk> uploads{io, {.size_of = &chunk::size, .shared = memory, .reserved_bytes = 1 << 20}};
///     canigo::channel<row> rows{io, {.size_of = size_of_row, .shared = memory, .reserved_bytes = 1 << 20}};
///
/// The values in all channels together never exceed the capacity. Room that is reserved for one channel is never used
/// by another. So a full channel can't block the consumer of another channel. The remaining room goes to channels with
/// waiting senders, the most important priority class first. If the first waiting senders of several channels have the
/// same class, these channels share the room equally. The share of a channel is measured by the part of the capacity
/// that its values take. A channel that sends rarely goes next when it has a waiting sender.
///
/// A copy refers to the same capacity. This object may be destroyed before its channels. All channels run on the
/// executor of the capacity.
///
/// Threads: any thread may call any member at any time. Allocates: in the constructor.
class channel_capacity {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  channel_capacity(const net::any_io_executor& executor, const channel_capacity_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  channel_capacity(ExecutionContext& context, const channel_capacity_options& options)
      : channel_capacity{net::any_io_executor{context.get_executor()}, options} {}
  channel_capacity(const channel_capacity& other) noexcept;
  channel_capacity& operator=(const channel_capacity& other) noexcept;
  ~channel_capacity();

  channel_capacity_stats stats() const noexcept;

 private:
  template <class T>
  friend class channel;
  detail::channel_group* group_;
};

template <class T>
struct channel_options {
  std::uint64_t capacity = unlimited;  ///< max number of values in the channel; 1 or more
  std::uint64_t bytes = unlimited;     ///< max total size of the values in bytes; 1 or more
  /// The size of a value in bytes; required if `bytes` is set, or if the shared capacity limits bytes. It is called
  /// once for each value, inside the call that sends the value. If it throws, that call throws the exception.
  std::function<std::uint64_t(const T&)> size_of = {};
  std::optional<channel_capacity> shared = {};  ///< a capacity that the channel shares with others
  std::uint64_t reserved_capacity = 0;  ///< number of values of the shared capacity that only this channel may use
  std::uint64_t reserved_bytes = 0;     ///< bytes of the shared capacity that only this channel may use
  int priorities = 1;                   ///< number of priority classes, 1 to 1024; class 0 goes first
  std::size_t queue_limit = 100'000;    ///< max number of waiting senders, and of waiting receivers; 1 or more
  std::string name = {};                ///< appears in error messages
};

/// The statistics of a channel, all read at one instant. At every instant sent = received + items.
struct channel_stats {
  std::uint64_t items = 0;      ///< number of values in the channel
  std::uint64_t bytes = 0;      ///< total size of the values in bytes
  std::size_t senders = 0;      ///< number of senders that wait for room
  std::size_t receivers = 0;    ///< number of receivers that wait for a value
  std::uint64_t sent = 0;       ///< number of values that entered the channel
  std::uint64_t received = 0;   ///< number of values that receivers took
  std::uint64_t cancelled = 0;  ///< number of sends and receives that were cancelled while they waited
  std::uint64_t refused = 0;    ///< number of sends that failed for a reason other than a cancellation, such as close()
  std::uint64_t capacity = 0;   ///< max number of values in the channel; 2^62 means unlimited
  std::uint64_t most_bytes = 0;
};

/// A queue of values between coroutines, callbacks and threads. The number of values and their total size have a bound:
///
///     canigo::channel<job> jobs{io, {.capacity = 100, .priorities = 2}};
///     co_await jobs.send(std::move(j));                      // waits while it is full
///     std::error_code end;
///     while (std::optional<job> j = co_await jobs.receive(end)) work(*j);   // until close() and the last value
///
/// Promises:
/// - The channel never holds more values or bytes than its options allow. Room becomes free when a receiver takes a
///   value.
/// - When room becomes free, the next value enters at that instant, whatever executor its sender runs on. Senders go by
///   priority class, and in order of arrival inside a class: a smaller value never overtakes a larger one.
/// - When a receiver resumes, it gets one value: the oldest value of the most important class in the channel. Receivers
///   are served in order of arrival.
/// - Each sent value is received exactly once, unless the channel is destroyed first. If a receiver is cancelled or
///   destroyed before it has taken its value, the next receiver gets that value. Asio's `receive() || timer` loses
///   the value if the timer expires in the same turn of the event loop in which the value is taken. Use with_timeout()
///   or cancel_after() instead.
/// - A failed send sends nothing. Its value is destroyed or given back: see send().
///
/// T is any object type with a move constructor that does not throw; it need not be copyable or default-constructible.
///
/// Errors of sends; a failed send takes no room:
/// - errc::closed after close(); errc::stopped if the channel or its execution context is destroyed;
/// - errc::queue_full if `queue_limit` senders wait;
/// - errc::too_large immediately if the value exceeds the capacity of the channel;
/// - errc::invalid_priority immediately; errc::not_enough_memory if there is no memory for the value or the wait.
/// Errors of receives: errc::closed if the channel is closed and empty; errc::stopped, errc::queue_full and
/// errc::not_enough_memory as for sends.
/// Cancellation: terminal, partial, total. The sender or receiver leaves the queue, and no value is lost. Senders
/// behind a cancelled sender enter at the same instant if there is room for them.
/// Threads: any thread may call any member at any time. T is moved and destroyed with no lock held.
/// Lifetime: destroying the channel ends all waiting senders and receivers with errc::stopped. It also destroys the
/// values that are not assigned to a receiver. An awaitable of send() or receive() must be started while the channel
/// lives. The execution context may be destroyed first.
/// Allocates: for a value only if the channel holds more values than ever before, because it keeps its nodes for reuse.
/// Apart from that only coroutine frames and operations, which Asio recycles.
template <class T>
class channel {
  static_assert(std::is_object_v<T> && !std::is_const_v<T> && !std::is_array_v<T>,
                "channel<T>: T is a type of objects, such as std::string, without const or &");
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_destructible_v<T>,
                "channel<T>: moving a T must not throw: declare its move constructor noexcept, or send a "
                "std::unique_ptr<T>");

 public:
  using value_type = T;
  using executor_type = net::any_io_executor;

  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  channel(const net::any_io_executor& executor, const channel_options<T>& options)
      : size_of_{options.size_of}, core_{detail::open_channel(executor, to_setup(options))} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  channel(ExecutionContext& context, const channel_options<T>& options)
      : channel{net::any_io_executor{context.get_executor()}, options} {}
  /// Rejects options with a wrong field, or with a field of the wrong type, at compile time. The compiler's message
  /// names the right types.
  template <detail::any_context Context>
  channel(const Context&, const detail::misfit_channel_options&)
      : channel{net::any_io_executor{}, channel_options<T>{}} {
    static_assert(!detail::any_context<Context>,
                  "channel: a field is another class's, or has another type: .capacity and .bytes are whole numbers, "
                  ".size_of is a function of a const T&, .shared a channel_capacity");
  }
  /// Rejects a plain value instead of options, such as `channel<T>{io, 100}`, at compile time. The compiler's message
  /// shows how to name the field.
  template <detail::any_context Context, detail::bare_value<channel_options<T>> Value>
  channel(const Context&, const Value&) : channel{net::any_io_executor{}, channel_options<T>{}} {
    static_assert(!detail::any_context<Context>, "channel: name the field: channel<T>{io, {.capacity = 100}}");
  }
  ~channel() { core_->abandon(); }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  /// Waits for room and sends the value. The value is moved or copied when send() is called. If the send fails, the
  /// value is destroyed. Throws std::system_error.
  ///
  /// If there is room, send() completes without passing through the event loop, except after 128 such calls in a row.
  /// Completes on the awaiting coroutine's executor.
  ///
  /// With g++ 12, give an aggregate a name first: `job j{1, "text"}; co_await jobs.send(std::move(j));`. That compiler
  /// destroys an aggregate twice if it is created inside a co_await expression.
  [[nodiscard("co_await it")]] net::awaitable<void> send(T&& value, int priority = 0) {
    return detail::send_node(core_, node_of(std::move(value)), priority, nullptr);
  }
  [[nodiscard("co_await it")]] net::awaitable<void> send(const T& value, int priority = 0)
    requires std::copy_constructible<T>
  {
    return send(T(value), priority);
  }
  /// Like send() above, but does not throw: sets `error` to the error, or to success. During the wait `value` is
  /// moved-from; if the send fails, `value` gets its value back. `value` and `error` must live until the wait ends.
  [[nodiscard("co_await it")]] net::awaitable<void> send(T& value, int priority, std::error_code& error) {
    return detail::send_node(core_, node_from(value), priority, &error);
  }

  /// Rejects `send(value)` for a T that can't be copied, at compile time. The compiler's message says to write
  /// `send(std::move(value))`.
  template <class Never = void>
  net::awaitable<void> send(T&, int = 0)
    requires(!std::copy_constructible<T>)
  {
    static_assert(!std::is_void_v<Never>, "channel.send: this T can't be copied: send(std::move(value))");
    return {};
  }

  /// Like send(), for any completion token; signature void(std::error_code).
  ///
  /// Always completes by a post, on the handler's associated executor; the default is the channel's executor. Allocates
  /// one operation with the handler's associated allocator. Without a token, async_send() returns an awaitable.
  template <net::completion_token_for<void(std::error_code)> Token = net::use_awaitable_t<>>
  auto async_send(T value, int priority, Token&& token = Token()) {
    return net::async_initiate<Token, void(std::error_code)>(detail::start_sending{core_}, token,
                                                             node_of(std::move(value)), priority);
  }
  template <class Token = net::use_awaitable_t<>>
    requires(!std::is_convertible_v<Token, int>)
  auto async_send(T value, Token&& token = Token()) {
    return async_send(std::move(value), 0, std::forward<Token>(token));
  }

  /// Sends the value if there is room and no other sender waits. Never waits.
  ///
  /// If the value can't be sent now, or the channel is closed, try_send() returns false and leaves `value` unchanged.
  /// Throws std::system_error for a value that can never be sent.
  [[nodiscard("was it sent?")]] bool try_send(T&& value, int priority = 0) {
    detail::owned_node n = node_from(value);
    if (n != nullptr) static_cast<node&>(*n).fetch();
    return detail::try_send_node(*core_, n, priority);
  }
  [[nodiscard("was it sent?")]] bool try_send(const T& value, int priority = 0)
    requires std::copy_constructible<T>
  {
    return try_send(T(value), priority);
  }

  /// Rejects `try_send(value)` for a T that can't be copied, at compile time. The compiler's message says to write
  /// `try_send(std::move(value))`.
  template <class Never = void>
  bool try_send(T&, int = 0)
    requires(!std::copy_constructible<T>)
  {
    static_assert(!std::is_void_v<Never>, "channel.try_send: this T can't be copied: try_send(std::move(value))");
    return false;
  }

  /// Waits for a value and takes it. Throws std::system_error.
  ///
  /// If the channel has a value, receive() completes without passing through the event loop, except after 128 such
  /// calls in a row. Completes on the awaiting coroutine's executor.
  [[nodiscard("co_await it")]] net::awaitable<T> receive() { return detail::receive_value<T>(core_); }
  /// Like receive() above, but does not throw: sets `error` to the error, or to success. After an error it returns
  /// std::nullopt. `error` must live until the wait ends.
  [[nodiscard("co_await it")]] net::awaitable<std::optional<T>> receive(std::error_code& error) {
    return detail::try_to_receive_value<T>(core_, &error);
  }

  /// Like receive(), for any completion token; signature void(std::error_code, std::optional<T>).
  ///
  /// Always completes by a post, on the handler's associated executor; the default is the channel's executor. Allocates
  /// one operation with the handler's associated allocator. Without a token, async_receive() returns an awaitable.
  template <net::completion_token_for<void(std::error_code, std::optional<T>)> Token = net::use_awaitable_t<>>
  auto async_receive(Token&& token = Token()) {
    detail::refuse_to_drop_value<Token>();
    return net::async_initiate<Token, void(std::error_code, std::optional<T>)>(detail::start_receiving<T>{core_},
                                                                               token);
  }

  /// Takes the most important value that is not yet assigned to a waiting receiver. Returns nothing if there is no such
  /// value. Never waits.
  [[nodiscard("was there one?")]] std::optional<T> try_receive() {
    detail::outcome why;
    detail::channel_node* const n = core_->try_receive(why);
    return n != nullptr ? std::optional<T>{detail::value_out_of<T>(*n)} : std::nullopt;
  }

  /// Closes the channel: waiting and later senders end with errc::closed. Receivers get the values in the channel, and
  /// then errc::closed. Idempotent.
  void close() noexcept { core_->close(); }
  bool is_closed() const noexcept { return core_->is_closed(); }

  channel_stats stats() const noexcept {
    const detail::channel_counts c = core_->counts();
    return {.items = c.items,
            .bytes = c.bytes,
            .senders = c.senders,
            .receivers = c.receivers,
            .sent = c.sent,
            .received = c.received,
            .cancelled = c.cancelled,
            .refused = c.refused,
            .capacity = c.capacity,
            .most_bytes = c.most_bytes};
  }
  executor_type get_executor() const { return core_->executor(); }

 private:
  using node = detail::value_node<T>;

  static detail::channel_setup to_setup(const channel_options<T>& o) {
    return {.capacity = o.capacity,
            .bytes = o.bytes,
            .reserved_capacity = o.reserved_capacity,
            .reserved_bytes = o.reserved_bytes,
            .shared = o.shared ? o.shared->group_ : nullptr,
            .has_size = static_cast<bool>(o.size_of),
            .priorities = o.priorities,
            .queue_limit = o.queue_limit,
            .name = &o.name};
  }

  /// Returns a node without a value, for a value of size `bytes`; null if there is no memory.
  detail::owned_node empty_node(std::uint64_t bytes) noexcept {
    detail::owned_node n = core_->spare_node();
    if (n == nullptr) n.reset(new (std::nothrow) node);
    if (n != nullptr) n->tokens = bytes;
    return n;
  }
  detail::owned_node node_of(T&& value) {
    detail::owned_node n = empty_node(size_of_ ? size_of_(std::as_const(value)) : 0);
    if (n != nullptr) static_cast<node&>(*n).put(std::move(value));
    return n;
  }
  detail::owned_node node_from(T& value) {
    detail::owned_node n = empty_node(size_of_ ? size_of_(std::as_const(value)) : 0);
    if (n != nullptr) static_cast<node&>(*n).borrow(value);
    return n;
  }

  const std::function<std::uint64_t(const T&)> size_of_;
  detail::channel_port* const core_;
};

}  // namespace canigo
