#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/queue/wait_queue.hpp"

#include <cstdint>
#include <memory>

namespace canigo::detail {

/// The interface through which shared_places calls an engine that shares slots. The engine seeks a slot while a slot is
/// the only thing that its first waiter lacks.
class place_seeker : public wait_node {
 protected:
  place_seeker() = default;
  ~place_seeker() = default;

 private:
  friend class shared_places;

  /// Keeps the engine alive until let_go(). Called under the lock of the shared_places, while the engine seeks a slot.
  virtual void keep() noexcept = 0;
  virtual void let_go() noexcept = 0;
  /// Called with no lock held when a slot may be free. The engine must then call seek() to take the slot, or withdraw()
  /// to end its search.
  virtual void look_again() noexcept = 0;
};

/// Slots that several engines share. Each shared_cap has one object of this class.
///
/// A slot is free or taken, and never reserved for an engine. While engines seek, no other engine takes a slot: the
/// most important class goes first, and inside a class the engine that has sought longest. After a slot is freed, the
/// seeking engines that could use it try to take it one after the other, until it is taken or no engine seeks.
///
/// Threads: any. Its lock is the last in the lock order: engines call it with their lock held, and it calls engines
/// without its lock. Allocates: in the constructor and in make_room_for().
class shared_places {
 public:
  explicit shared_places(std::uint64_t capacity);

  /// Allocates a queue for each of `priorities` classes, unless there are enough queues already. The engines that seek
  /// a slot wait in these queues.
  void make_room_for(int priorities);

  /// Takes a slot and returns true if a slot is free and no engine seeks a slot. Otherwise returns false.
  bool try_take() noexcept;
  /// Takes a slot and returns true if a slot is free and no seeking engine has precedence over `s`. Otherwise `s` seeks
  /// a slot in the class `priority` until it takes a slot or withdraws.
  bool seek(place_seeker& s, int priority) noexcept;
  void withdraw(place_seeker& s) noexcept;
  /// Frees slots. Returns true if an engine seeks a slot. Then the caller must call pass_on() with no lock held.
  bool put_back(std::uint64_t places) noexcept;
  /// Calls look_again() of the seeking engines that could take a free slot.
  void pass_on() noexcept;

  /// Changes the capacity. Taken slots stay taken. If more slots are taken than the new capacity allows, no slot is
  /// granted until enough slots are freed.
  void resize(std::uint64_t capacity) noexcept;
  std::uint64_t capacity() const noexcept;
  std::uint64_t occupied() const noexcept;

 private:
  bool is_sought() const noexcept { return occupied_ < capacity_ && !seekers_->empty(); }
  place_seeker* next_to_look() noexcept;

  mutable mutex mutex_;
  std::uint64_t capacity_;
  std::uint64_t occupied_ = 0;
  std::unique_ptr<wait_queue> seekers_;
};

}  // namespace canigo::detail
