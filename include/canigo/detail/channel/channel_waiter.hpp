#pragma once

#include "canigo/detail/admission/waiter.hpp"
#include "canigo/detail/channel/channel_value.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>

#include <cstdint>
#include <system_error>
#include <tuple>
#include <utility>

namespace canigo::detail {

class channel_core;
class channel_group;

/// A caller that waits for room in a channel, or for a value of it.
class channel_waiter : public suspended, public wait_node {
 public:
  /// `value`: where a sender has its value, until the channel takes it; nullptr: this is a receiver.
  channel_waiter(channel_core& c, bool at_home, bool holds_work, owned_node* value) noexcept;

  void request_cancel() noexcept;
  /// Nobody is told how the wait ended. A value that was promised to this receiver goes to the next one.
  void abandon() noexcept;
  const net::any_io_executor& home_executor() const noexcept;

 protected:
  ~channel_waiter() = default;
  /// Gives up the reference to the engine that a waiter has which is foreign, or pushed.
  void let_go_of_engine() noexcept;

  channel_core* channel_;  // stays while this is queued, or has a value promised
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
  sending(channel_core& c, bool at_home, bool holds_work, owned_node&& value) noexcept
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
  waiting_in_frame(channel_core& c, bool at_home, owned_node* value, outcome* how) noexcept
      : channel_waiter{c, at_home, false, value}, how_{how} {}

  std::tuple<> take_results() noexcept {
    *how_ = outcome_;
    let_go_of_engine();
    return {};
  }

 private:
  outcome* how_;
};

}  // namespace canigo::detail
