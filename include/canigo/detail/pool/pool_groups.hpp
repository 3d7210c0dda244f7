#pragma once

#include "canigo/detail/pool/pool_waiter_list.hpp"

#include <cstdint>
#include <map>

namespace canigo::detail {

class pool_groups;

/// The place of a task in its group, if it has one.
class pool_group_member {
 public:
  pool_group_member() noexcept = default;
  pool_group_member(const pool_group_member&) = delete;
  pool_group_member& operator=(const pool_group_member&) = delete;

  /// Prepares to join a group; 0 is none. Throws std::bad_alloc.
  void choose_group(std::uint64_t id);
  std::uint64_t group() const noexcept { return id_; }
  pool_group_member* next_in_group() const noexcept { return next_; }

 private:
  friend class pool_groups;
  struct entry {
    pool_group_member* first = nullptr;
    pool_waiter_list waiters;
  };

  std::map<std::uint64_t, entry>::node_type node_;  // its node until it has joined
  std::uint64_t id_ = 0;
  pool_group_member* previous_ = nullptr;
  pool_group_member* next_ = nullptr;
};

/// The tasks of a pool that can be cancelled and waited for together. A group is there as long as a task is in it.
///
/// Threads: none; its owner holds a lock. Allocates: never; a member brings what its group needs.
class pool_groups {
 public:
  void join(pool_group_member& m) noexcept;
  /// Returns the waiters for the group, if it has no member any more.
  pool_waiter_list leave(pool_group_member& m) noexcept;

  /// The member that joined last, or nullptr.
  pool_group_member* first(std::uint64_t id) noexcept;
  /// Where to wait until a group has no member; nullptr: it has none.
  pool_waiter_list* waiters(std::uint64_t id) noexcept;
  template <class Function>
  void for_each_list(Function&& f) {
    for (auto& [id, e] : groups_) f(e.waiters);
  }

 private:
  std::map<std::uint64_t, pool_group_member::entry> groups_;
};

}  // namespace canigo::detail
