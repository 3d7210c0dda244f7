#pragma once

#include "canigo/detail/context/context_visit.hpp"

#include "ledger.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace canigo::redis::detail {

/// Holds the ledger's lock. At its end it calls step(), and then carries the decisions out without the lock.
struct ledger::change {
  using context_visit = canigo::detail::context_visit;

  explicit change(ledger& l) noexcept : owner{l.shared_from_this()} { l.mutex_.lock(); }
  change(const change&) = delete;
  change& operator=(const change&) = delete;
  ~change() {
    ledger& l = *owner;
    l.step();
    // Waiters are posted while their context stays. One that is about to go destroys those that are left.
    const bool is_ready = !l.ready_.empty() && !l.context_gone_;
    const context_visit visit = is_ready ? context_visit{l.visits()} : context_visit{};
    canigo::detail::suspended_list ready;
    if (visit.lasts()) ready.append(std::move(l.ready_));
    std::shared_ptr<holding> ended = l.book_.take_ended();
    std::optional<command> call;
    call.swap(l.call_);
    const bool post = std::exchange(l.turn_wanted_, false) && !l.turn_posted_;
    if (post) l.turn_posted_ = true;
    l.mutex_.unlock();
    if (call) l.send(std::move(*call));
    while (ended != nullptr) {
      std::shared_ptr<holding> h = std::exchange(ended, std::move(ended->next_to_tell));
      try {
        h->ended.cancel();
      } catch (...) {
        l.tell_later(std::move(h));
      }
    }
    while (auto* s = ready.pop()) {
      try {
        s->post();
      } catch (...) {
        l.deliver_later(static_cast<limit_waiter&>(*s));
      }
    }
    // Post the turn after those posts: then the requests of their handlers go into the same call.
    if (post) l.post_turn();
  }

  const std::shared_ptr<ledger> owner;
};

}  // namespace canigo::redis::detail
