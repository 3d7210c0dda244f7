#pragma once

#include "canigo/detail/context/context_visit.hpp"

#include "engine.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::redis::detail {

/// The text that `make` returns; empty if there is no memory for it. The code says enough then.
template <class Make>
std::string text_of(Make make) noexcept {
  try {
    return make();
  } catch (...) {
    return {};
  }
}

/// Holds the lock. At its end it carries the decisions out without the lock.
struct engine::delivery {
  using context_visit = canigo::detail::context_visit;

  explicit delivery(engine& e) noexcept : owner{e.shared_from_this()} { e.mutex_.lock(); }
  delivery(const delivery&) = delete;
  delivery& operator=(const delivery&) = delete;
  ~delivery() {
    // Callers are told while their context stays. One that is about to go destroys those that are left.
    const bool is_ready = !owner->ready_.empty() && !owner->context_gone_;
    const context_visit visit = is_ready ? context_visit{owner->visits()} : context_visit{};
    canigo::detail::suspended_list ready;
    if (visit.lasts()) ready.append(std::move(owner->ready_));
    const bool post = std::exchange(owner->turn_wanted_, false) && !owner->turn_posted_ && !owner->context_gone_;
    if (post) owner->turn_posted_ = true;
    owner->mutex_.unlock();
    if (post) owner->post_turn();
    while (auto* s = ready.pop()) {
      try {
        s->post();
      } catch (...) {
        owner->deliver_later(static_cast<call&>(*s));
      }
    }
  }

  const std::shared_ptr<engine> owner;
};

}  // namespace canigo::redis::detail
