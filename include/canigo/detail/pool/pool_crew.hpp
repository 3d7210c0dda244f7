#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

/// The base of a worker, which is a member of a pool_crew.
class crew_member {
 public:
  enum class state : std::uint8_t {
    gone,       // the member has no coroutine
    awake,      // the member looks for work, or was woken for that
    idle,       // the member has nothing to do
    running,    // the member runs an operation
    resting,    // the member broke, and waits before it restarts
    repairing,  // the member makes, checks, resets or destroys its resource
    leaving,    // the member is about to end
  };

  crew_member() noexcept = default;
  crew_member(const crew_member&) = delete;
  crew_member& operator=(const crew_member&) = delete;

  bool is(state s) const noexcept { return state_ == s; }
  /// Whether the member must leave, even if the crew has too few members.
  bool is_retired() const noexcept { return is_retired_; }
  bool is_equipped() const noexcept { return is_equipped_; }

 private:
  friend class pool_crew;
  crew_member* previous_ = nullptr;  // the previous member in the list of its state
  crew_member* next_ = nullptr;
  state state_ = state::gone;
  bool is_retired_ = false;
  bool is_equipped_ = false;
};

/// Counts the workers of a pool by state. If the wanted number of workers changes, the crew chooses which worker to
/// wake, start, keep or end. A member (a worker) may have equipment (a resource) that is slow to get, so members
/// without equipment are woken last and leave first.
///
/// Only the crew changes the state of a member, so that the counts are right. Threads: not thread-safe; its owner must
/// hold a lock.
class pool_crew {
 public:
  using state = crew_member::state;

  /// `needs_equipment` tells whether a member must get equipment before it works.
  explicit pool_crew(bool needs_equipment = false) noexcept : needs_equipment_{needs_equipment} {}

  /// Adds a member in state `gone`.
  void add(crew_member& m) noexcept;

  std::size_t wanted() const noexcept { return wanted_; }
  void want(std::size_t n) noexcept { wanted_ = n; }

  /// The number of members that have a coroutine and are not about to leave.
  std::size_t staying() const noexcept { return present_ - leaving_; }
  bool is_empty() const noexcept { return present_ == 0; }
  bool is_short() const noexcept { return staying() < wanted_; }
  bool is_too_large() const noexcept { return staying() > wanted_; }
  /// The number of members that may work at the same time.
  std::size_t able() const noexcept { return std::min(staying(), wanted_); }
  /// How many of the able() members are idle, or are about to look for work.
  std::size_t free() const noexcept {
    const std::size_t most = able();
    const std::size_t busy = running_ + repairing_;
    return most > busy ? most - busy : 0;
  }
  std::size_t running() const noexcept { return running_; }
  std::size_t idle() const noexcept { return idle_; }
  /// The number of members whose state is repairing or resting.
  std::size_t repairing() const noexcept { return repairing_; }
  /// Whether a member looks for work, or runs a short operation and will look for work soon.
  bool is_on_the_move() const noexcept { return staying() > idle_ + running_long_ + repairing_; }
  /// The idle member to wake next, or nullptr.
  crew_member* first_idle() const noexcept { return idle_list_.first; }

  // Each of the next three functions chooses a member whose change of state brings the crew closer to the wanted
  // number, or returns nullptr.
  /// The idle member that must leave: the last of the idle list, which has been idle for longest or has no equipment.
  crew_member* to_leave() const noexcept { return is_too_large() ? idle_list_.last : nullptr; }
  /// The member in state `leaving` that may change back to awake. Members with equipment come first. nullptr if the
  /// crew needs no member, or has none that may change back.
  crew_member* to_stay() const noexcept { return is_short() ? leaving_list_.first : nullptr; }
  /// The member in state `gone` that must return: the member that was gone for longest.
  crew_member* to_join() const noexcept { return is_short() ? gone_.first : nullptr; }

  // Called when a member has got or lost its equipment.
  void equip(crew_member& m) noexcept;
  void unequip(crew_member& m) noexcept;
  std::size_t equipped() const noexcept { return equipped_; }

  // Changes the state from gone to awake.
  void join(crew_member& m) noexcept;
  // begin() changes the state from awake to running, and end() changes it back.
  void begin(crew_member& m, bool is_long) noexcept {
    m.state_ = state::running;
    ++running_;
    if (is_long) ++running_long_;
  }
  void end(crew_member& m, bool is_long) noexcept {
    m.state_ = state::awake;
    --running_;
    if (is_long) --running_long_;
  }
  // rest() and repair() change the state from awake to resting or repairing. recover() changes the state back to awake.
  void rest(crew_member& m) noexcept;
  void repair(crew_member& m) noexcept;
  void recover(crew_member& m) noexcept;
  // sleep() changes the state from awake to idle, and wake() changes it back. Both are inline, because each operation
  // in an idle pool calls both. The member that worked last is woken first, because its memory is in the cache. So
  // other members stay idle for long, and may lose their equipment.
  void sleep(crew_member& m) noexcept {
    m.state_ = state::idle;
    idle_list_.add(m, m.is_equipped_ || !needs_equipment_);
    ++idle_;
  }
  void wake(crew_member& m) noexcept {
    m.state_ = state::awake;
    idle_list_.remove(m);
    --idle_;
  }
  // Changes the state from awake or resting to leaving.
  void leave(crew_member& m) noexcept;
  // Like leave(), but stay() can no longer bring the member back. The member may already be in state leaving.
  void retire(crew_member& m) noexcept;
  // Changes the state from leaving to awake.
  void stay(crew_member& m) noexcept;
  // Changes any state to gone, and removes the equipment. If the member is running, its operation must be a long one,
  // because short operations can't be interrupted.
  void lose(crew_member& m) noexcept;

 private:
  // Lists for the states idle, gone and leaving. A member has one state, so it is in at most one list.
  struct list {
    crew_member* first = nullptr;
    crew_member* last = nullptr;

    void add(crew_member& m, bool in_front) noexcept {
      m.previous_ = in_front ? nullptr : last;
      m.next_ = in_front ? first : nullptr;
      (m.previous_ != nullptr ? m.previous_->next_ : first) = &m;
      (m.next_ != nullptr ? m.next_->previous_ : last) = &m;
    }
    void remove(crew_member& m) noexcept {
      (m.previous_ != nullptr ? m.previous_->next_ : first) = m.next_;
      (m.next_ != nullptr ? m.next_->previous_ : last) = m.previous_;
    }
  };

  static bool may_stay(const crew_member& m) noexcept { return m.is(state::leaving) && !m.is_retired_; }

  std::size_t wanted_ = 0;
  std::size_t present_ = 0;
  std::size_t leaving_ = 0;
  std::size_t running_ = 0;
  std::size_t running_long_ = 0;
  std::size_t repairing_ = 0;
  std::size_t idle_ = 0;
  std::size_t equipped_ = 0;
  list idle_list_;
  list gone_;
  list leaving_list_;  // members in state leaving that may change back to awake; members with equipment come first
  const bool needs_equipment_;
};

}  // namespace canigo::detail
