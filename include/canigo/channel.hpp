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
  std::uint64_t capacity = unlimited;  ///< most values, of all channels together; 1 or more
  std::uint64_t bytes = unlimited;     ///< most bytes of these values; 1 or more; at least one of both has a bound
};

/// A shared capacity in numbers.
struct channel_capacity_stats {
  std::uint64_t items = 0;     ///< values in all channels
  std::uint64_t bytes = 0;     ///< of these values
  std::size_t channels = 0;    ///< that share it
  std::size_t senders = 0;     ///< that wait, in all channels
  std::uint64_t capacity = 0;  ///< most values; 2^62: no bound
  std::uint64_t most_bytes = 0;
};

/// One capacity for the values of several channels:
///
///     canigo::channel_capacity memory{io, {.bytes = 64 << 20}};
///     canigo::channel<chunk> uploads{io, {.size_of = &chunk::size, .shared = memory, .reserved_bytes = 1 << 20}};
///     canigo::channel<row> rows{io, {.size_of = size_of_row, .shared = memory, .reserved_bytes = 1 << 20}};
///
/// At no instant do the values in all channels exceed it. The room that is reserved for a channel is there for it,
/// however much the others hold. So a consumer that waits at one channel is not stuck because another one is full. The
/// rest goes to the channels whose senders wait, the most important class first. In a class they share it equally, by
/// the part of the capacity that their values take. A channel that sends rarely goes next.
///
/// A copy is the same capacity. It may be destroyed before its channels. They are on its executor.
///
/// Threads: any, all members, at once. Allocates: in the constructor.
class channel_capacity {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
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
  std::uint64_t capacity = unlimited;  ///< most values in it; 1 or more
  std::uint64_t bytes = unlimited;     ///< most bytes of these values; 1 or more
  /// How many bytes a value counts for; required where bytes have a bound. It is called once for a value, in the call
  /// that sends it, and what it throws comes out of that call.
  std::function<std::uint64_t(const T&)> size_of = {};
  std::optional<channel_capacity> shared = {};  ///< a capacity that several channels share
  std::uint64_t reserved_capacity = 0;          ///< values of the shared capacity that no other channel takes
  std::uint64_t reserved_bytes = 0;             ///< bytes of the shared capacity that no other channel takes
  int priorities = 1;                           ///< classes 0 (first) … priorities-1; 1 to 1024
  std::size_t queue_limit = 100'000;            ///< most senders that wait, and most receivers; 1 or more
  std::string name = {};                        ///< for the texts of errors
};

/// A channel in numbers. Consistent: taken in one step. At every moment sent = received + items.
struct channel_stats {
  std::uint64_t items = 0;      ///< values in it
  std::uint64_t bytes = 0;      ///< of these values
  std::size_t senders = 0;      ///< that wait for room
  std::size_t receivers = 0;    ///< that wait for a value
  std::uint64_t sent = 0;       ///< values that came in
  std::uint64_t received = 0;   ///< values that were taken
  std::uint64_t cancelled = 0;  ///< sends and receives that were cancelled while they waited
  std::uint64_t refused = 0;    ///< sends that failed otherwise, such as by close()
  std::uint64_t capacity = 0;   ///< most values; 2^62: no bound
  std::uint64_t most_bytes = 0;
};

/// A queue of values between coroutines, callbacks and threads, bounded by the number of values and by their bytes:
///
///     canigo::channel<job> jobs{io, {.capacity = 100, .priorities = 2}};
///     co_await jobs.send(std::move(j));                      // waits while it is full
///     std::error_code end;
///     while (std::optional<job> j = co_await jobs.receive(end)) work(*j);   // until close() and the last value
///
/// Promises:
/// - At no instant does it hold more values or bytes than it may. Room comes back when a receiver takes a value.
/// - A value goes in at the instant that makes room for it, wherever its sender runs. Senders go by class, and inside a
///   class by arrival: a smaller value never overtakes a larger one.
/// - A receiver gets the most important value that is there when it goes on; of a class, the one that came in first.
///   Receivers are served by arrival.
/// - Every value that was sent is received exactly once, unless the channel is destroyed before. A receiver that is
///   cancelled or destroyed loses none: a value that it has not taken goes to the next receiver.
/// - A send that fails has sent nothing. Its value is destroyed, or comes back: see send().
///
/// T is any object type that moves without an exception; it need not be copyable or default-constructible.
///
/// Errors of sends; a failed one takes no room:
/// - errc::closed after close(); errc::stopped if the channel is destroyed, or its execution context;
/// - errc::queue_full if `queue_limit` senders wait;
/// - errc::too_large at once if the value exceeds what the channel can ever hold;
/// - errc::invalid_priority at once; errc::not_enough_memory without memory for the value or the wait.
/// Errors of receives: errc::closed once it is closed and no value is left; errc::stopped, errc::queue_full and
/// errc::not_enough_memory as above.
/// Cancellation: terminal, partial, total. The sender or receiver loses its place, and nothing else happens. Senders
/// that it held up go in the same instant if they can.
/// Threads: any, all members, at once. T is moved and destroyed with no lock held.
/// Lifetime: destroying it ends all who wait with errc::stopped and destroys the values that are promised to no
/// receiver. A send() or receive() that was made must be started while it lives. The execution context may be destroyed
/// first.
/// Allocates: for a value only if it is fuller than ever before, as it keeps the memory of its fullest moment.
/// Otherwise only coroutine frames and operations, which Asio recycles.
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

  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  channel(const net::any_io_executor& executor, const channel_options<T>& options)
      : size_of_{options.size_of}, core_{detail::open_channel(executor, to_setup(options))} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  channel(ExecutionContext& context, const channel_options<T>& options)
      : channel{net::any_io_executor{context.get_executor()}, options} {}
  /// Does not compile: the compiler's message says what to write.
  template <detail::any_context Context>
  channel(const Context&, const detail::misfit_channel_options&)
      : channel{net::any_io_executor{}, channel_options<T>{}} {
    static_assert(!detail::any_context<Context>,
                  "channel: a field is another class's, or has another type: .capacity and .bytes are whole numbers, "
                  ".size_of is a function of a const T&, .shared a channel_capacity");
  }
  /// Does not compile: the compiler's message says what to write.
  template <detail::any_context Context, detail::bare_value<channel_options<T>> Value>
  channel(const Context&, const Value&) : channel{net::any_io_executor{}, channel_options<T>{}} {
    static_assert(!detail::any_context<Context>, "channel: name the field: channel<T>{io, {.capacity = 100}}");
  }
  ~channel() { core_->abandon(); }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  /// Waits for room and sends the value, which is moved, or copied, at the call. If the send fails, it is destroyed.
  /// Throws std::system_error.
  ///
  /// A value that goes in at once does not pass through the event loop, except after 128 calls in a row. Completes on
  /// the awaiting coroutine's executor.
  ///
  /// With g++ 12, give an aggregate a name first: `job j{1, "text"}; co_await jobs.send(std::move(j));`. That compiler
  /// destroys an aggregate twice that is written inside a co_await expression.
  [[nodiscard("co_await it")]] net::awaitable<void> send(T&& value, int priority = 0) {
    return detail::send_node(core_, node_of(std::move(value)), priority, nullptr);
  }
  [[nodiscard("co_await it")]] net::awaitable<void> send(const T& value, int priority = 0)
    requires std::copy_constructible<T>
  {
    return send(T(value), priority);
  }
  /// Like send() above, without an exception: sets `error`, also to success. If it fails, `value` has its value again;
  /// meanwhile it is moved from. Both must live until the wait ends.
  [[nodiscard("co_await it")]] net::awaitable<void> send(T& value, int priority, std::error_code& error) {
    return detail::send_node(core_, node_from(value), priority, &error);
  }

  /// Does not compile: the compiler's message says what to write.
  template <class Never = void>
  net::awaitable<void> send(T&, int = 0)
    requires(!std::copy_constructible<T>)
  {
    static_assert(!std::is_void_v<Never>, "channel.send: this T can't be copied: send(std::move(value))");
    return {};
  }

  /// Like send(), for any completion token; signature void(std::error_code).
  ///
  /// Always completes by a post, on the handler's associated executor, by default the channel's. Allocates one
  /// operation with the handler's associated allocator. Without a token it is awaitable.
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

  /// Sends the value if there is room and no sender waits for it. Never waits itself.
  ///
  /// Otherwise, and once closed, returns false, and `value` has its value. Throws std::system_error for a value that
  /// can never be sent.
  [[nodiscard("was it sent?")]] bool try_send(T&& value, int priority = 0) {
    detail::owned_node n = node_from(value);
    return detail::try_send_node(*core_, n, priority);
  }
  [[nodiscard("was it sent?")]] bool try_send(const T& value, int priority = 0)
    requires std::copy_constructible<T>
  {
    return try_send(T(value), priority);
  }

  /// Does not compile: the compiler's message says what to write.
  template <class Never = void>
  bool try_send(T&, int = 0)
    requires(!std::copy_constructible<T>)
  {
    static_assert(!std::is_void_v<Never>, "channel.try_send: this T can't be copied: try_send(std::move(value))");
    return false;
  }

  /// Waits for a value and takes it. Throws std::system_error.
  ///
  /// A value that is there does not pass through the event loop, except after 128 calls in a row. Completes on the
  /// awaiting coroutine's executor.
  [[nodiscard("co_await it")]] net::awaitable<T> receive() { return detail::receive_value<T>(core_); }
  /// Like receive() above, without an exception: sets `error`, also to success. If it fails, there is no value. `error`
  /// must live until the wait ends.
  [[nodiscard("co_await it")]] net::awaitable<std::optional<T>> receive(std::error_code& error) {
    return detail::try_to_receive_value<T>(core_, &error);
  }

  /// Like receive(), for any completion token; signature void(std::error_code, std::optional<T>).
  ///
  /// Always completes by a post, on the handler's associated executor, by default the channel's. Allocates one
  /// operation with the handler's associated allocator. Without a token it is awaitable.
  template <net::completion_token_for<void(std::error_code, std::optional<T>)> Token = net::use_awaitable_t<>>
  auto async_receive(Token&& token = Token()) {
    detail::refuse_to_drop_value<Token>();
    return net::async_initiate<Token, void(std::error_code, std::optional<T>)>(detail::start_receiving<T>{core_},
                                                                               token);
  }

  /// Takes the most important value, if one is there that is not on its way to a receiver. Never waits itself.
  [[nodiscard("was there one?")]] std::optional<T> try_receive() {
    detail::outcome why;
    detail::owned_node n = core_->try_receive(why);
    if (n == nullptr) return std::nullopt;
    std::optional<T> v = detail::value_out_of<T>(*n);
    core_->keep_node(std::move(n));
    return v;
  }

  /// Ends senders that wait, and later sends, with errc::closed. Receivers get the values that are there, and then
  /// errc::closed. Idempotent.
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

  /// An empty node, or none if there is no memory.
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
