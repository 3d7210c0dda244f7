#include "canigo/detail/channel/channel_value.hpp"

#include <mutex>

namespace canigo::detail {

channel_nodes::~channel_nodes() {
  while (first_ != nullptr) delete std::exchange(first_, first_->next_);
}

owned_node channel_nodes::take() noexcept {
  const std::lock_guard lock{mutex_};
  channel_node* const n = first_;
  if (n != nullptr) first_ = n->next_;
  return owned_node{n};
}

void channel_nodes::give_back(owned_node n) noexcept {
  const std::lock_guard lock{mutex_};
  n->next_ = first_;
  first_ = n.release();
}

}  // namespace canigo::detail
