#pragma once

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/admission/waiter.hpp"
#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/request.hpp"

#include <asio/associated_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstddef>
#include <exception>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// Starts the wait of a coroutine, in memory inside the coroutine's frame. `Extra` are further arguments of the
/// constructor of `Waiter`.
template <class Waiter, class... Extra>
struct start_parked {
  static constexpr std::size_t room_size = 320;
  using room = frame_room<room_size>;

  admission* home;
  room* frame;
  const request* wanted;  // the request, which is stored in the coroutine's frame
  bool granted;           // true: the request is already granted, and the coroutine only passes through the event loop
  [[no_unique_address]] std::tuple<Extra...> extra = {};

  // noinline, because inlining this function makes immediate grants 5 % slower.
  template <class Handler>
  [[gnu::noinline]] void operator()(Handler&& handler) const noexcept {
    static_assert(!std::is_reference_v<Handler>);
    // If the request is already granted, the caller passes through the event loop only so that other handlers run. So a
    // drain that is already running must not resume this caller. (A drain is the handler that resumes ready callers.)
    const auto executor = net::get_associated_executor(handler, home->executor());
    const bool at_home = !granted && completes_at(home->executor(), executor);
    const auto begin = [this](waiter& w, bool has_memory) {
      if (granted) {
        home->deliver(w, *wanted, outcome::granted);
      } else if (has_memory) {
        home->enter(w, *wanted);
      } else {
        home->deliver(w, *wanted, to_outcome(errc::not_enough_memory));
      }
    };
    std::apply(
        [&](Extra... more) {
          initiate_in<limited_waiter<Waiter>>(*frame, std::move(handler), begin, *home, at_home, false, more...);
        },
        extra);
  }
};

/// Throws an exception that tells why the request `r` was refused immediately.
[[noreturn]] void throw_refusal(const admission& home, const request& r, outcome o);
/// Returns the exception for a wait that ended with `error` in the queue of a limit; std::bad_alloc if there is no
/// memory for the exception.
std::exception_ptr error_in_queue(const limit_name& limit, std::error_code error) noexcept;

inline const request& as_request(const request& r) noexcept { return r; }
[[gnu::cold]] request as_request(
    int priority = 0) noexcept;  // noinline, because inlining this function would slow immediate grants down

/// A waiter of a coroutine that gets errors as exceptions. It shares the limit's name, because the limit may be
/// destroyed before the waiter.
template <class Base>
class throwing_waiter : public Base {
 public:
  throwing_waiter(admission& home, bool at_home, bool holds_work) noexcept
      : Base{home, at_home, holds_work}, limit_{home.name()} {}

  /// Returns the handler arguments of Base, with an exception_ptr instead of the error code.
  auto take_results() noexcept {
    return std::apply(
        [this](std::error_code e, auto&&... granted) {
          return std::tuple{e ? error_in_queue(limit_, e) : std::exception_ptr{}, std::move(granted)...};
        },
        Base::take_results());
  }

 private:
  limit_name limit_;
};

/// The body of every acquire(): waits until a request is granted. `wanted` is the request, or only the priority of the
/// request. With only a priority, an immediate grant stores no whole request in the frame.
///
/// The frame holds a request only once, because Asio 1.22 recycles only frames of up to 1020 bytes.
template <class Waiter, class... Wanted>
net::awaitable<typename Waiter::granted_type> wait_for(admission* home, Wanted... wanted) {
  using granted_type = typename Waiter::granted_type;
  const outcome o = home->is_behind_others(wanted...) ? outcome::must_wait : home->try_enter_in_turn(wanted...);
  if (o == outcome::granted) co_return Waiter::granted(*home, wanted...);
  const request& r = as_request(wanted...);
  if (o > outcome::granted) throw_refusal(*home, r, o);

  using start = start_parked<throwing_waiter<Waiter>>;
  typename start::room room;
  if constexpr (park_returns_a<granted_type, std::exception_ptr>) {
    co_return co_await park_for<granted_type, std::exception_ptr>(
        start{home, &room, &r, o == outcome::granted_by_post});
  } else {
    co_await park_for<granted_type, std::exception_ptr>(start{home, &room, &r, o == outcome::granted_by_post});
    std::terminate();
  }
}

/// A waiter of a coroutine that gets errors as codes, in a variable of the caller.
template <class Base>
class telling_waiter : public Base {
 public:
  telling_waiter(admission& home, bool at_home, bool holds_work, std::error_code* error) noexcept
      : Base{home, at_home, holds_work}, error_{error} {}

  /// Stores the error code in the caller's variable. Returns the other handler arguments of Base.
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

/// Like wait_for(), but stores an error in `*error` instead of throwing it.
template <class Waiter>
net::awaitable<typename Waiter::granted_type> try_to_wait_for(admission* home, request r, std::error_code* error) {
  using granted_type = typename Waiter::granted_type;
  const outcome o = home->is_behind_others(r) ? outcome::must_wait : home->try_enter_in_turn(r);
  *error = o > outcome::granted ? to_error_code(o) : std::error_code{};
  if (o == outcome::granted) co_return Waiter::granted(*home, r);
  if (*error) co_return granted_type();

  using start = start_parked<telling_waiter<Waiter>, std::error_code*>;
  typename start::room room;
  const bool is_granted = o == outcome::granted_by_post;
  if constexpr (park_returns_a<granted_type>) {
    co_return co_await park_for<granted_type>(start{home, &room, &r, is_granted, {error}});
  } else {
    co_await park_for<granted_type>(start{home, &room, &r, is_granted, {error}});
    std::terminate();
  }
}

}  // namespace canigo::detail
