#pragma once

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/request.hpp"

#include <asio/associated_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/post.hpp>

#include <cstddef>
#include <exception>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// Lets a made operation wait for `r`. The operation may be gone when this returns.
template <class Operation>
void enter(Operation& op, admission& home, const request& r) noexcept {
  try {
    op.allow_cancel();
  } catch (...) {
    home.deliver(op, r, to_outcome(errc::not_enough_memory));
    return;
  }
  home.enter(op, r);
}

/// Initiates a wait for a caller that came with a completion token.
template <class Waiter>
struct start_waiting {
  admission* home;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return home->executor(); }

  template <class Handler>
  void operator()(Handler&& handler, const request& r) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    if (r.deadline == time_point::max()) {
      start<Waiter>(h, r);
    } else {
      start<limited_waiter<Waiter>>(h, r);
    }
  }

 private:
  template <class Base, class Handler>
  void start(Handler& handler, const request& r) const {
    const auto executor = net::get_associated_executor(handler, home->executor());
    const bool at_home = completes_at<Handler>(home->executor(), executor);
    try {
      enter(*make_suspended<Base>(handler, home->executor(), *home, at_home, !has_own_executor<Handler>), *home, r);
    } catch (const std::bad_alloc&) {
      // Under co_await a throw from here would be std::terminate.
      net::post(executor, [h = std::move(handler)]() mutable {
        std::apply(std::move(h), Waiter::failed(errc::not_enough_memory));
      });
    }
  }
};

/// Initiates a wait for a coroutine, in the room that its frame has for it. `Extra` is what the waiter is told beside.
template <class Waiter, class... Extra>
struct start_parked {
  static constexpr std::size_t room_size = 320;
  using room = frame_room<room_size>;

  admission* home;
  room* frame;
  request wanted;
  bool granted;  // all that is left to do is to pass through the event loop
  [[no_unique_address]] std::tuple<Extra...> extra = {};

  template <class Handler>
  void operator()(Handler&& handler) const noexcept {
    static_assert(!std::is_reference_v<Handler>);
    // What passes through the loop for the sake of others must not be resumed by a drain that happens to run.
    const auto executor = net::get_associated_executor(handler, home->executor());
    const bool at_home = !granted && same_executor(home->executor(), executor);
    auto* op = std::apply(
        [&](Extra... more) {
          return make_suspended_in<limited_waiter<Waiter>>(*frame, handler, *home, at_home, false, more...);
        },
        extra);
    if (granted) {
      home->deliver(*op, wanted, outcome::granted);
    } else {
      enter(*op, *home, wanted);
    }
  }
};

/// Throws what a request was refused for at once.
[[noreturn]] void throw_refusal(const admission& home, const request& r, outcome o);

/// Waits for the request that `wanted` are the first fields of, or that it is; the body of every acquire(). What is
/// granted at once has no request in the frame, but what it knows of it.
template <class Waiter, class... Wanted>
net::awaitable<typename Waiter::granted_type> wait_for(admission* home, Wanted... wanted) {
  using granted_type = typename Waiter::granted_type;
  const outcome o = home->is_behind_others(wanted...) ? outcome::must_wait : home->try_enter_in_turn(wanted...);
  if (o == outcome::granted) co_return Waiter::granted(*home, request{wanted...});
  const request r{wanted...};
  if (o > outcome::granted) throw_refusal(*home, r, o);

  using start = start_parked<Waiter>;
  typename start::room room;
  if constexpr (std::is_void_v<granted_type>) {
    co_await park<std::error_code>(start{home, &room, r, o == outcome::granted_by_post});
  } else if constexpr (park_returns) {
    co_return co_await park<std::error_code, granted_type>(start{home, &room, r, o == outcome::granted_by_post});
  } else {
    co_await park<std::error_code, granted_type>(start{home, &room, r, o == outcome::granted_by_post});
    std::terminate();
  }
}

/// A waiter of a coroutine that takes no exception: the error code goes where the caller wants it.
template <class Base>
class telling_waiter : public Base {
 public:
  telling_waiter(admission& home, bool at_home, bool holds_work, std::error_code* error) noexcept
      : Base{home, at_home, holds_work}, error_{error} {}

  /// What Base's handler takes after the error code.
  auto take_results() noexcept {
    return std::apply(
        [this](std::error_code e, auto&&... granted) {
          *error_ = e;
          return std::tuple{std::move(granted)...};
        },
        Base::take_results());
  }

 private:
  std::error_code* error_;
};

/// The same as wait_for(), with an error code in place of exceptions.
template <class Waiter>
net::awaitable<typename Waiter::granted_type> try_to_wait_for(admission* home, request r, std::error_code* error) {
  using granted_type = typename Waiter::granted_type;
  const outcome o = home->is_behind_others(r) ? outcome::must_wait : home->try_enter_in_turn(r);
  *error = o > outcome::granted ? to_error_code(o) : std::error_code{};
  if (o == outcome::granted) co_return Waiter::granted(*home, r);

  using start = start_parked<telling_waiter<Waiter>, std::error_code*>;
  typename start::room room;
  const bool is_granted = o == outcome::granted_by_post;
  if constexpr (std::is_void_v<granted_type>) {
    if (*error) co_return;
    co_await park<>(start{home, &room, r, is_granted, {error}});
  } else {
    if (*error) co_return granted_type{};
    if constexpr (park_returns) {
      co_return co_await park<granted_type>(start{home, &room, r, is_granted, {error}});
    } else {
      co_await park<granted_type>(start{home, &room, r, is_granted, {error}});
      std::terminate();
    }
  }
}

}  // namespace canigo::detail
