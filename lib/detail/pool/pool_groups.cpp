#include "canigo/detail/pool/pool_groups.hpp"

#include <utility>

namespace canigo::detail {

void pool_group_member::choose_group(std::uint64_t id) {
  if (id != 0) {
    std::map<std::uint64_t, entry> one;
    one.try_emplace(id);
    node_ = one.extract(one.begin());
  }
  id_ = id;
}

void pool_groups::join(pool_group_member& m) noexcept {
  if (m.id_ == 0) return;
  auto& group = groups_.insert(std::move(m.node_)).position->second;
  m.next_ = group.first;
  if (m.next_ != nullptr) m.next_->previous_ = &m;
  group.first = &m;
}

pool_waiter_list pool_groups::leave(pool_group_member& m) noexcept {
  const auto found = groups_.find(m.id_);
  if (found == groups_.end()) return {};
  auto& group = found->second;
  if (m.next_ != nullptr) m.next_->previous_ = m.previous_;
  (m.previous_ != nullptr ? m.previous_->next_ : group.first) = m.next_;
  if (group.first != nullptr) return {};
  pool_waiter_list waiters{std::move(group.waiters)};
  groups_.erase(found);
  return waiters;
}

pool_group_member* pool_groups::first(std::uint64_t id) noexcept {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : found->second.first;
}

pool_waiter_list* pool_groups::waiters(std::uint64_t id) noexcept {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : &found->second.waiters;
}

}  // namespace canigo::detail
