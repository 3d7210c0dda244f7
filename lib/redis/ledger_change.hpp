#pragma once

#include "ledger.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace canigo::redis::detail {

/// Holds the limit's lock. The destructor calls step() and releases the lock. Then it sends the prepared command, and
/// notifies the holders of permits that were released or lost.
struct ledger::change {
  explicit change(ledger& l) noexcept : owner{l.shared_from_this()} { l.mutex_.lock(); }
  change(const change&) = delete;
  change& operator=(const change&) = delete;
  ~change() {
    ledger& l = *owner;
    l.step();
    std::shared_ptr<holding> ended = l.book_.take_ended();
    std::optional<command> call;
    call.swap(l.call_);
    l.unlock();
    if (call) l.send(std::move(*call));
    while (ended != nullptr) {
      std::shared_ptr<holding> h = std::exchange(ended, std::move(ended->next_to_tell));
      try {
        h->ended.cancel();
      } catch (...) {
        l.tell_later(std::move(h));
      }
    }
  }

  const std::shared_ptr<ledger> owner;
};

}  // namespace canigo::redis::detail
