#pragma once

#include "canigo/detail/pool/pool_waiter_list.hpp"

#include <cstdint>
#include <map>

namespace canigo::detail {

class pool_groups;

/// The membership of a task in its group.
class pool_group_member {
 public:
  pool_group_member() noexcept = default;
  pool_group_member(const pool_group_member&) = delete;
  pool_group_member& operator=(const pool_group_member&) = delete;

  /// Stores the group that join() will add this member to, and allocates the memory that join() needs. 0: no group.
  /// Throws std::bad_alloc.
  void choose_group(std::uint64_t id);
  std::uint64_t group() const noexcept { return id_; }
  pool_group_member* next_in_group() const noexcept { return next_; }

 private:
  friend class pool_groups;
  struct entry {
    pool_group_member* first = nullptr;
    pool_waiter_list waiters;
  };

  std::map<std::uint64_t, entry>::node_type node_;  // the memory of the group's map entry, until join() uses it
  std::uint64_t id_ = 0;
  pool_group_member* previous_ = nullptr;
  pool_group_member* next_ = nullptr;
};

/// The groups of tasks in a pool. A caller can cancel a group, or wait for its end. A group exists as long as it has a
/// task.
///
/// Threads: not thread-safe; its owner must hold a lock. Allocates: never; each member brings the memory for its group.
class pool_groups {
 public:
  void join(pool_group_member& m) noexcept;
  /// Removes a member from its group. If the group is then empty, returns the waiters for the end of the group;
  /// otherwise an empty list.
  pool_waiter_list leave(pool_group_member& m) noexcept;

  /// The member that joined the group last, or nullptr.
  pool_group_member* first(std::uint64_t id) noexcept;
  /// The list of waiters for the end of a group; nullptr if the group has no member.
  pool_waiter_list* waiters(std::uint64_t id) noexcept;
  template <class Function>
  void for_each_list(Function&& f) {
    for (auto& [id, e] : groups_) f(e.waiters);
  }

 private:
  std::map<std::uint64_t, pool_group_member::entry> groups_;
};

}  // namespace canigo::detail
