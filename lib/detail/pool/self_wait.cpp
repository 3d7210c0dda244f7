#include "canigo/detail/pool/self_wait.hpp"

namespace canigo::detail {

bool self_wait::begin(waiter& w, std::size_t able) noexcept {
  if (w.inside_ == nullptr) return true;
  worker& own = *w.inside_;
  if (own.first_ == nullptr) {
    if (blocked_ + 1 >= able) return false;
    ++blocked_;
  }
  w.next_ = own.first_;
  own.first_ = &w;
  return true;
}

void self_wait::remove(waiter& w) noexcept {
  worker& own = *w.inside_;
  waiter** place = &own.first_;
  while (*place != &w) place = &(*place)->next_;
  *place = w.next_;
  w.next_ = &w;
  if (own.first_ == nullptr) --blocked_;
}

void self_wait::disown(worker& w) noexcept {
  if (w.first_ == nullptr) return;
  while (waiter* left = w.first_) {
    w.first_ = left->next_;
    left->next_ = left;
  }
  --blocked_;
}

}  // namespace canigo::detail
