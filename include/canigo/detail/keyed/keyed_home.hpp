#pragma once

#include "canigo/algorithms/key_hash.hpp"
#include "canigo/detail/keyed/keyed_base.hpp"

#include <cstdint>
#include <utility>

namespace canigo::detail {

/// The interface through which permits are returned to a keyed limit.
template <class Key>
class keyed_home : public keyed_base {
 public:
  /// Gives back `places` permits of a key. If `is_shared`, the permits belong to the limit that several keys share.
  virtual void give_back(key_view<Key> key, std::uint64_t places, bool is_shared) noexcept = 0;

 protected:
  using keyed_base::keyed_base;
};

/// Owns a reference to a keyed limit.
template <class Home>
class keyed_ref {
 public:
  keyed_ref() noexcept = default;
  explicit keyed_ref(Home& h) noexcept : home_{&h} { h.add_ref(); }
  keyed_ref(keyed_ref&& other) noexcept : home_{std::exchange(other.home_, nullptr)} {}
  keyed_ref& operator=(keyed_ref&& other) noexcept {
    std::swap(home_, other.home_);
    return *this;
  }
  ~keyed_ref() {
    if (home_ != nullptr) home_->release_ref();
  }
  Home* operator->() const noexcept { return home_; }
  Home* get() const noexcept { return home_; }
  explicit operator bool() const noexcept { return home_ != nullptr; }

 private:
  Home* home_ = nullptr;
};

}  // namespace canigo::detail
