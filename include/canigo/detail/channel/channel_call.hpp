#pragma once

#include "canigo/detail/admission/waiter.hpp"
#include "canigo/detail/channel/channel_core.hpp"
#include "canigo/detail/channel/channel_value.hpp"
#include "canigo/detail/channel/channel_waiter.hpp"
#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/misuse.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/associated_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/detached.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

// The calls of a channel, in the types of its values.

namespace canigo::detail {

/// The options of a channel without its type, unchecked.
struct channel_setup {
  channel_load limit;
  channel_load reserved;
  channel_group* shared = nullptr;
  bool has_size = false;
  int priorities = 1;
  std::size_t queue_limit = 0;
  const std::string* name = nullptr;
};

/// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
channel_core* open_channel(const net::any_io_executor& executor, const channel_setup& s);

/// The body of try_send(). If it fails, the value goes back to where it came from.
bool try_send_node(channel_core& c, owned_node& n, int priority);

/// Takes the options of a channel with a field of another type.
struct misfit_channel_options {
  any_value capacity, bytes, size_of, shared, reserved_capacity, reserved_bytes, permits, concurrency, rate, rates,
      burst, priorities, queue_limit, on_overflow, ageing, name;
};

/// Keeps a channel until it is destroyed.
class held_core {
 public:
  held_core() noexcept = default;
  held_core(const held_core&) = delete;
  held_core& operator=(const held_core&) = delete;
  ~held_core() {
    if (core_ != nullptr) core_->let_go();
  }
  channel_core& keep(channel_core& c) noexcept {
    c.hold();
    core_ = &c;
    return c;
  }

 private:
  channel_core* core_ = nullptr;
};

/// Lets a coroutine pass through the event loop. The channel must be held meanwhile.
net::awaitable<void> pass_through_loop(channel_core& held);
/// A co_await has thrown before it began: the coroutine was cancelled, or there is no memory.
outcome why_not_started(const std::exception_ptr& e) noexcept;
/// Waits for room with the value in `value`, or for a value to be promised if there is none.
net::awaitable<void> wait_in_frame(channel_core* c, owned_node* value, int priority, outcome* how);
/// The body of every send(). Tells by `error`, or throws if that is null. An empty `value` stands for no memory.
net::awaitable<void> send_node(channel_core* c, owned_node value, int priority, std::error_code* error);
/// Throws how a wait of a channel of this name ended.
[[noreturn]] void throw_end(const std::shared_ptr<const std::string>& name, outcome o);

/// Refuses a completion token that drops the value that was received.
template <class Token>
constexpr void refuse_to_drop_value() noexcept {
  static_assert(!std::is_same_v<std::remove_cvref_t<Token>, net::detached_t>,
                "async_receive: detached drops the value: take it with a handler");
}

template <class T>
T value_out_of(channel_node& n) noexcept {
  auto& filled = static_cast<value_node<T>&>(n);
  T v = std::move(filled.value());
  filled.clear();
  return v;
}

/// Takes the value that was promised to a receiver of `c`, which may be gone then.
template <class T>
T take_promised_value(channel_core& c) noexcept {
  owned_node n = c.take_promised();
  T v = value_out_of<T>(*n);
  c.done(std::move(n));
  return v;
}

/// Waits for a value, for a caller that came with a completion token.
template <class T>
class receiving : public channel_waiter {
 public:
  receiving(channel_core& c, bool at_home, bool holds_work) noexcept
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
  channel_core* channel;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return channel->group().executor(); }

  template <class Handler>
  void operator()(Handler&& handler, owned_node value, int priority) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    const net::any_io_executor& own = channel->group().executor();
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
  channel_core* channel;

  using executor_type = net::any_io_executor;
  executor_type get_executor() const noexcept { return channel->group().executor(); }

  template <class Handler>
  void operator()(Handler&& handler) const {
    std::decay_t<Handler> h(std::forward<Handler>(handler));
    const net::any_io_executor& own = channel->group().executor();
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
net::awaitable<T> receive_value(channel_core* c) {
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
net::awaitable<std::optional<T>> try_to_receive_value(channel_core* c, std::error_code* error) {
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
