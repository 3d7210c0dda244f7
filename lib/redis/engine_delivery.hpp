#pragma once

#include "engine.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::redis::detail {

/// What `make` returns, and nothing where there is no memory for it: the code says enough.
template <class Make>
std::string text_of(Make make) noexcept {
  try {
    return make();
  } catch (...) {
    return {};
  }
}

/// Holds the lock; what was decided under it is carried out after it.
struct engine::delivery {
  explicit delivery(engine& e) noexcept : owner{e.shared_from_this()} { e.mutex_.lock(); }
  delivery(const delivery&) = delete;
  delivery& operator=(const delivery&) = delete;
  ~delivery() {
    canigo::detail::suspended_list ready{std::move(owner->ready_)};
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
