#include "canigo/detail/channel/channel_call.hpp"

#include "canigo/detail/admission/awaited.hpp"
#include "canigo/detail/channel/channel_core.hpp"
#include "canigo/detail/channel/channel_group.hpp"
#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/error.hpp"

#include <asio/associated_executor.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace canigo::detail {

channel_waiter::channel_waiter(channel_port& c, bool at_home, bool holds_work, owned_node* value) noexcept
    : channel_{&c},
      group_{&static_cast<channel_core&>(c).group()},
      value_{value},
      at_home_{at_home},
      holds_work_{holds_work} {}

void channel_waiter::request_cancel() noexcept { group_->cancel(*this); }

const net::any_io_executor& channel_waiter::home_executor() const noexcept { return group_->executor(); }

void channel_waiter::let_go_of_engine() noexcept {
  if ((!at_home_ || group_->pushes()) && state_ == state::ending) group_->release_ref();
}

void channel_waiter::abandon() noexcept {
  const bool has_promise = value_ == nullptr && state_ == state::ending && outcome_ == outcome::granted;
  if (has_promise) static_cast<channel_core*>(channel_)->drop_promise();
  let_go_of_engine();
}

namespace {

/// Starts the wait of a coroutine, in memory reserved in the coroutine's frame.
struct start_in_frame {
  using room = frame_room<256>;

  channel_port* channel;
  room* frame;
  owned_node* value;
  int priority;
  outcome* how;

  template <class Handler>
  void operator()(Handler&& handler) const noexcept {
    const net::any_io_executor& home = channel->executor();
    const bool at_home = completes_at(home, net::get_associated_executor(handler, home));
    const auto begin = [this](waiting_in_frame& w, bool has_memory) {
      if (!has_memory) {
        channel->fail(w, to_outcome(errc::not_enough_memory));
      } else if (value != nullptr) {
        channel->send(w, priority);
      } else {
        channel->receive(w);
      }
    };
    initiate_in<waiting_in_frame>(*frame, std::move(handler), begin, *channel, at_home, value, how);
  }
};

}  // namespace

net::awaitable<void> pass_through_loop(channel_port&) { return net::post(net::use_awaitable); }

outcome why_not_started(const std::exception_ptr& e) noexcept {
  try {
    std::rethrow_exception(e);
  } catch (const std::bad_alloc&) {
    return to_outcome(errc::not_enough_memory);
  } catch (...) {
    return outcome::aborted;
  }
}

net::awaitable<void> wait_in_frame(channel_port* c, owned_node* value, int priority, outcome* how) {
  start_in_frame::room room;
  co_return co_await park_for<void>(start_in_frame{c, &room, value, priority, how});
}

net::awaitable<void> send_node(channel_port* c, owned_node value, int priority, std::error_code* error) {
  outcome o = to_outcome(errc::not_enough_memory);
  limit_name name;
  std::exception_ptr wrong;
  if (value != nullptr) {
    value->fetch();
    name = c->name();
    try {
      held_core hold;
      if (c->takes_turn()) co_await pass_through_loop(hold.keep(*c));
      o = c->try_send(value, priority);
      if (o == outcome::must_wait) {
        co_await wait_in_frame(c, &value, priority, &o);
      } else if (error == nullptr && (o == to_outcome(errc::invalid_priority) || o == to_outcome(errc::too_large))) {
        wrong = static_cast<channel_core*>(c)->why_wrong(value->tokens, priority);
      }
    } catch (...) {
      o = why_not_started(std::current_exception());
    }
  }
  if (o != outcome::granted && value != nullptr) value->restore();
  if (error != nullptr) {
    *error = to_error_code(o);
  } else if (wrong) {
    std::rethrow_exception(wrong);
  } else if (o != outcome::granted) {
    throw_end(name, o);
  }
}

void throw_end(const std::shared_ptr<const std::string>& name, outcome o) {
  if (name != nullptr && o != outcome::aborted) throw error_at{to_error_code(o), *name};
  throw std::system_error{to_error_code(o)};
}

}  // namespace canigo::detail
