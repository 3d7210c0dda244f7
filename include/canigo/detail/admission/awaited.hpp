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

/// Initiates a wait for a coroutine, in the room that its frame has for it.
template <class Waiter>
struct start_parked {
  static constexpr std::size_t room_size = 320;
  using room = frame_room<room_size>;

  admission* home;
  room* frame;
  request wanted;
  bool granted;  // all that is left to do is to pass through the event loop

  template <class Handler>
  void operator()(Handler&& handler) const noexcept {
    static_assert(!std::is_reference_v<Handler>);
    // What passes through the loop for the sake of others must not be resumed by a drain that happens to run.
    const auto executor = net::get_associated_executor(handler, home->executor());
    const bool at_home = !granted && same_executor(home->executor(), executor);
    auto* op = make_suspended_in<limited_waiter<Waiter>>(*frame, handler, *home, at_home, false);
    if (granted) {
      home->deliver(*op, wanted, outcome::granted);
    } else {
      enter(*op, *home, wanted);
    }
  }
};

/// A waiter whose handler takes what `Base` ends with as one value: nothing throws for it.
template <class Base>
class answered_waiter : public Base {
 public:
  using Base::Base;
  using results = std::tuple<typename Base::results>;
  results take_results() noexcept { return {Base::take_results()}; }
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

/// Waits for `r`, and returns how that ended.
template <class Waiter>
net::awaitable<typename Waiter::results> wait_for_answer(admission* home, request r, bool granted) {
  using start = start_parked<answered_waiter<Waiter>>;
  typename start::room room;
  if constexpr (park_returns) {
    co_return co_await park<typename Waiter::results>(start{home, &room, r, granted});
  } else {
    co_await park<typename Waiter::results>(start{home, &room, r, granted});
    std::terminate();
  }
}

/// The same as wait_for() with an error code in place of exceptions.
template <class Waiter>
net::awaitable<typename Waiter::granted_type> try_to_wait_for(admission* home, request r, std::error_code* error) {
  using granted_type = typename Waiter::granted_type;
  const outcome o = home->is_behind_others(r) ? outcome::must_wait : home->try_enter_in_turn(r);
  *error = o > outcome::granted ? to_error_code(o) : std::error_code{};
  if (o == outcome::granted) co_return Waiter::granted(*home, r);
  if constexpr (std::is_void_v<granted_type>) {
    if (!*error) std::tie(*error) = co_await wait_for_answer<Waiter>(home, r, o == outcome::granted_by_post);
  } else {
    granted_type granted;
    if (!*error) {
      std::tie(*error, granted) = co_await wait_for_answer<Waiter>(home, r, o == outcome::granted_by_post);
    }
    co_return granted;
  }
}

}  // namespace canigo::detail
