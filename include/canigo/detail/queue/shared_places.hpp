#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/queue/wait_queue.hpp"

#include <cstdint>
#include <memory>

namespace canigo::detail {

/// The interface of an engine that shares places, for these places. It seeks a place while its first waiter lacks
/// nothing else.
class place_seeker : public wait_node {
 protected:
  place_seeker() = default;
  ~place_seeker() = default;

 private:
  friend class shared_places;

  /// Keeps the engine until let_go(). Called under the lock of the places, while it seeks.
  virtual void keep() noexcept = 0;
  virtual void let_go() noexcept = 0;
  /// Called when a place may be free, with no lock held. Takes the place with seek(), or withdraws.
  virtual void look_again() noexcept = 0;
};

/// Places that several engines share. Each shared_cap has one of these.
///
/// A place is free or taken, and promised to no engine. While engines seek, no other engine takes a place: the most
/// important class goes first, and in a class the engine that has sought longest. After a place is freed, the seekers
/// that could have it look again, one after the other, until it is taken or no engine seeks.
///
/// Threads: any. Its lock is the last one taken: the engines call it with theirs held, and it calls them without.
/// Allocates: in the constructor and in make_room_for().
class shared_places {
 public:
  explicit shared_places(std::uint64_t capacity);

  /// Makes room for engines that seek in so many classes.
  void make_room_for(int priorities);

  /// Takes a place if one is free and no engine seeks.
  bool try_take() noexcept;
  /// Takes a place if one is free and `s` comes first; else it seeks one, in this class, until it gets it or withdraws.
  bool seek(place_seeker& s, int priority) noexcept;
  void withdraw(place_seeker& s) noexcept;
  /// Frees places. True if an engine seeks what is free now: then the caller must call pass_on() with no lock held.
  bool put_back(std::uint64_t places) noexcept;
  /// Has the seekers look again that could have a free place.
  void pass_on() noexcept;

  /// Takes no place away: after a smaller capacity, no engine gets a place until enough have come back.
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
