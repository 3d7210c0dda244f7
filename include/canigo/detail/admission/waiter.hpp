#pragma once

#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/detail/time/deadline.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/associated_executor.hpp>
#include <asio/error.hpp>

#include <cstdint>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

namespace canigo::detail {

class admission;
struct unit_record;

/// The state of a request: how it ended, or what it must do next. 0: granted; above 0: an errc; below 0: a value of
/// this enum.
enum class outcome : int {
  granted = 0,
  aborted = -1,            ///< the request was cancelled
  must_wait = -2,          ///< the request can't be granted now, and must enter the queue
  granted_by_post = -3,    ///< granted, but the coroutine must pass through the event loop first
  must_wait_in_flow = -4,  ///< in a limit with flows, the request can't be granted now, and must enter the queue
};

constexpr outcome to_outcome(errc code) noexcept { return static_cast<outcome>(code); }

inline std::error_code to_error_code(outcome o) noexcept {
  if (o == outcome::granted) return {};
  if (o == outcome::aborted) return net::error::operation_aborted;
  return make_error_code(static_cast<errc>(o));
}

/// A waiting request, together with its caller.
class waiter : public suspended, public wait_node {
 public:
  waiter(admission& home, bool at_home, bool holds_work) noexcept
      : home_{&home}, at_home_{at_home}, holds_work_{holds_work} {}

  void request_cancel() noexcept;
  void abandon() noexcept;
  const net::any_io_executor& home_executor() const noexcept;

 protected:
  ~waiter() = default;

  /// The deadline of a waiting request: when it passes, the request ends.
  struct limit : deadline {
    explicit limit(waiter& w) noexcept;
    waiter* owner;
  };
  void use(limit& l) noexcept { limit_ = &l; }
  /// Releases the waiter's reference to the engine. A waiter holds a reference if its handler has another executor than
  /// the engine, or if the waiter was pushed to a pump (a work-stealing queue). After the release, only slots that the
  /// waiter was granted keep the engine alive.
  void let_go_of_engine() noexcept;
  outcome ended_with() const noexcept { return outcome_; }
  /// Returns the value that the permit keeps for settling: the tokens, or a pointer to a record of the grant.
  std::uint64_t take_tokens() noexcept;

  admission* home_;

 private:
  friend class admission;
  enum class state : std::uint8_t {
    fresh,
    queued,
    awaiting_limit,  // the wait has ended; the deadline's function, which runs on another thread, will post the end
    ending,          // the end of the wait was posted or pushed to the waiter's executor
  };

  limit* limit_ = nullptr;
  unit_record* amounts_ = nullptr;  // the amounts of the request; set only if the limit keeps a record of each grant
  std::uint64_t tag_ = 0;
  outcome outcome_ = outcome::granted;
  state state_ = state::fresh;
  const bool at_home_;     // whether the handler's executor is the executor of the engine
  const bool holds_work_;  // whether the engine keeps the loop running for this waiter
  // whether this is a shadow waiter: it has no caller, and stands for a request that shadow mode has granted
  bool is_phantom_ = false;
};

/// A waiter whose handler takes only an error code.
class plain_waiter : public waiter {
 public:
  using waiter::waiter;
  using results = std::tuple<std::error_code>;
  using signature = void(std::error_code);
  using granted_type = void;
  static void granted(admission&, const request&) noexcept {}
  static void granted(admission&, int = 0) noexcept {}
  results take_results() noexcept {
    let_go_of_engine();
    return {to_error_code(ended_with())};
  }
  static results failed(errc code) noexcept { return {make_error_code(code)}; }
};

/// A waiter of type `Base` with a deadline.
template <class Base>
class limited_waiter : public Base {
 public:
  template <class... Args>
  explicit limited_waiter(Args&&... args) : Base(std::forward<Args>(args)...), limit_{*this} {
    this->use(limit_);
  }

 private:
  typename Base::limit limit_;
};

/// Makes a new waiter wait until the engine `home` grants the request `wanted`.
struct enter {
  admission& home;
  const request& wanted;
  void operator()(waiter& w, bool has_memory) const noexcept;
};

const net::any_io_executor& executor_of(const admission& a) noexcept;

/// Starts the wait of a caller that has passed a completion token.
template <class Waiter>
struct start_waiting {
  admission* home;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return executor_of(*home); }

  template <class Handler>
  void operator()(Handler&& handler, const request& r) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    const net::any_io_executor& own = executor_of(*home);
    const bool at_home = handler_completes_at<decltype(h)>(own, net::get_associated_executor(h, own));
    constexpr bool holds_work = !has_own_executor<decltype(h)>;
    if (r.deadline == time_point::max()) {
      initiate<Waiter>(h, own, enter{*home, r}, *home, at_home, holds_work);
    } else {
      initiate<limited_waiter<Waiter>>(h, own, enter{*home, r}, *home, at_home, holds_work);
    }
  }
};

}  // namespace canigo::detail
