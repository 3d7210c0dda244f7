#pragma once

#include "awake.hpp"
#include "ledger.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace canigo::redis::detail {

/// Room for so many, and more than that where there is to be more.
template <class T>
void make_room(std::vector<T>& v, std::size_t n) {
  if (v.capacity() < n) v.reserve(std::max(n, 2 * v.capacity()));
}

/// Holds the lock; then does what there is to do, and after it what was decided under it.
struct ledger::change {
  explicit change(ledger& l) noexcept : owner{l.shared_from_this()} { l.mutex_.lock(); }
  change(const change&) = delete;
  change& operator=(const change&) = delete;
  ~change() {
    ledger& l = *owner;
    l.step();
    canigo::detail::suspended_list ready{std::move(l.ready_)};
    std::shared_ptr<holding> ended = std::move(l.ended_);
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
    // After those: what they do now travels along.
    if (post) l.post_turn();
  }

  const std::shared_ptr<ledger> owner;
};

}  // namespace canigo::redis::detail
