#pragma once

#include "canigo/detail/context/suspend.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/recycling_allocator.hpp>

#include <memory>
#include <utility>

namespace canigo::redis::detail {

/// When this object is posted, it calls turn() of its owner on the executor `where`. It keeps the owner alive from
/// ask() until that call.
template <class Owner>
class turn_call final : public canigo::detail::suspended {
 public:
  explicit turn_call(const net::any_io_executor& where) noexcept : where_{&where} {}

  /// Requests a call of the owner's turn(). Returns true if no call was requested yet; then the caller must post this
  /// object. Precondition: the owner's lock is held.
  bool ask(std::shared_ptr<Owner> o) noexcept {
    if (std::exchange(is_asked_, true)) return false;
    owner_ = std::move(o);
    return true;
  }
  bool is_asked() const noexcept { return is_asked_; }
  /// Call it at the beginning of the owner's turn(), with the owner's lock held. A later ask() then causes another call
  /// of turn().
  void begin() noexcept { is_asked_ = false; }

  void resume() override {
    const auto owner = std::move(owner_);
    owner->turn();
  }
  void post() override { canigo::detail::post_resumption(*where_, *this, net::recycling_allocator<void>{}); }
  void destroy() noexcept override { const auto last = std::move(owner_); }

 private:
  const net::any_io_executor* where_;
  std::shared_ptr<Owner> owner_;
  bool is_asked_ = false;
};

}  // namespace canigo::redis::detail
