#pragma once

#include "canigo/detail/context/shared_alarm.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/coro/end_request.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/associated_executor.hpp>
#include <asio/associator.hpp>
#include <asio/async_result.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/system_executor.hpp>
#include <asio/use_awaitable.hpp>

#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

namespace canigo {

/// A completion token that gives one Asio operation a time limit. Use cancel_after() to make one.
template <class Token>
struct cancel_after_t {
  Token token;
  canigo::duration limit;
};

/// Gives one Asio operation a time limit: `co_await socket.async_read_some(buffer, cancel_after(2s))`.
///
/// When `limit` has passed, the operation is cancelled (terminal). If the operation then ends with any error, its
/// handler gets errc::timed_out. If the operation still completes with a result, its handler gets that result.
///
/// The first argument of the operation's handler must be a std::error_code, and the operation must react to its
/// cancellation slot. cancel_after(2s, token) adapts any other completion token.
///
/// If `limit` is 0 or less, the operation is started, and cancelled at the next turn of the event loop.
///
/// Newer versions of Asio also have a cancel_after(). A call without `canigo::` may find Asio's function by
/// argument-dependent lookup. An operation with Asio's token ends with operation_aborted when its time has passed.
/// Cancellation: a cancellation through the adapted token is passed on to the operation.
/// Threads: those of the operation. The cancellation is emitted on the handler's associated executor. If several
/// threads run the context, that executor must be a strand.
/// Allocates: one block with the handler's associated allocator.
inline cancel_after_t<net::use_awaitable_t<>> cancel_after(duration limit) { return {net::use_awaitable, limit}; }

template <class Token>
cancel_after_t<std::decay_t<Token>> cancel_after(duration limit, Token&& token) {
  return {std::forward<Token>(token), limit};
}

namespace detail {

/// One operation in flight, which is cancelled when its time limit has passed.
class timed_operation : public std::enable_shared_from_this<timed_operation> {
 public:
  timed_operation(time_source& time, const net::any_io_executor& executor) noexcept;

  void start(duration limit) noexcept;
  /// Call it when the operation has completed. Returns true if the operation was cancelled because its time limit
  /// passed.
  bool stop() noexcept;
  void cancel(net::cancellation_type type);
  net::cancellation_slot slot() noexcept { return signal_.slot(); }

 private:
  void time_is_up();

  time_source& time_;
  net::any_io_executor executor_;
  net::cancellation_signal signal_;
  shared_alarm<timed_operation> alarm_;
  bool is_over_ = false;  // is_over_ and request_ are used on the executor only
  end_request request_;
};

/// The handler of an operation with a time limit. Its cancellation slot is that of the timed_operation. Its executor,
/// allocator and other associations are those of the adapted handler.
template <class Handler>
class timed_handler {
 public:
  using cancellation_slot_type = net::cancellation_slot;

  timed_handler(Handler handler, std::shared_ptr<timed_operation> operation)
      : handler_(std::move(handler)), operation_(std::move(operation)) {}

  cancellation_slot_type get_cancellation_slot() const noexcept { return operation_->slot(); }
  const Handler& handler() const noexcept { return handler_; }

  template <class... Args>
  void operator()(std::error_code error, Args&&... args) {
    if (auto slot = net::get_associated_cancellation_slot(handler_); slot.is_connected()) slot.clear();
    if (operation_->stop() && error) error = errc::timed_out;
    operation_.reset();
    std::move(handler_)(error, std::forward<Args>(args)...);
  }

 private:
  Handler handler_;
  std::shared_ptr<timed_operation> operation_;
};

/// Wraps an initiation. If the initiation has a get_executor(), the wrapper has one, too, because a second
/// cancel_after() and use_coro call it.
template <class Initiation>
struct timed_initiation {
  Initiation initiation;
};
template <class Initiation>
  requires requires(const Initiation& i) { i.get_executor(); }
struct timed_initiation<Initiation> {
  Initiation initiation;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return initiation.get_executor(); }
};

template <class Initiation>
struct start_timed : timed_initiation<Initiation> {
  template <class Handler, class... Args>
  void operator()(Handler&& handler, duration limit, Args&&... args) const& {
    start_timed{*this}.start(std::forward<Handler>(handler), limit, std::forward<Args>(args)...);
  }
  template <class Handler, class... Args>
  void operator()(Handler&& handler, duration limit, Args&&... args) && {
    start(std::forward<Handler>(handler), limit, std::forward<Args>(args)...);
  }

 private:
  template <class Handler, class... Args>
  void start(Handler&& handler, duration limit, Args&&... args) {
    using handler_type = std::decay_t<Handler>;
    net::any_io_executor fallback;
    if constexpr (requires { this->get_executor(); }) {
      fallback = this->get_executor();
    } else if constexpr (std::is_same_v<typename net::associated_executor<handler_type, net::any_io_executor>::type,
                                        net::system_executor>) {
      fallback = net::system_executor{};
    }
    const net::any_io_executor executor = completion_executor(handler, fallback);
    const auto l = std::allocate_shared<timed_operation>(allocator_of(handler), time_source::of(executor), executor);
    if (auto slot = net::get_associated_cancellation_slot(handler); slot.is_connected()) {
      // The slot holds a weak reference, because the signal may outlive the operation and the context of its executor.
      slot.assign([weak = std::weak_ptr<timed_operation>{l}](net::cancellation_type type) {
        if (const auto own = weak.lock()) own->cancel(type);
      });
    }
    l->start(limit);
    std::move(this->initiation)(timed_handler<handler_type>(std::forward<Handler>(handler), l),
                                std::forward<Args>(args)...);
  }
};

}  // namespace detail
}  // namespace canigo

template <class Token, class Result, class... Args>
class asio::async_result<canigo::cancel_after_t<Token>, Result(std::error_code, Args...)> {
 public:
  template <class Initiation, class... InitArgs>
  static auto initiate(Initiation&& initiation, canigo::cancel_after_t<Token> token, InitArgs&&... args)
      -> decltype(asio::async_initiate<Token, Result(std::error_code, Args...)>(
          std::declval<canigo::detail::start_timed<std::decay_t<Initiation>>>(), token.token, token.limit,
          std::forward<InitArgs>(args)...)) {
    return asio::async_initiate<Token, Result(std::error_code, Args...)>(
        canigo::detail::start_timed<std::decay_t<Initiation>>{{std::forward<Initiation>(initiation)}}, token.token,
        token.limit, std::forward<InitArgs>(args)...);
  }
};

template <template <class, class> class Associator, class Handler, class Default>
struct asio::associator<Associator, canigo::detail::timed_handler<Handler>, Default> {
  using type = typename Associator<Handler, Default>::type;
  static type get(const canigo::detail::timed_handler<Handler>& h, const Default& d = Default()) noexcept {
    return Associator<Handler, Default>::get(h.handler(), d);
  }
};
