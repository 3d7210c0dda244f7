#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

/// A member of a pool_crew: the base of a worker.
class crew_member {
 public:
  enum class state : std::uint8_t {
    gone,       // has no coroutine
    awake,      // looks for work, or was woken to look for work
    idle,       // has nothing to do
    running,    // an operation
    resting,    // waits to start again after it broke
    repairing,  // works on its resource
    leaving,    // about to end
  };

  crew_member() noexcept = default;
  crew_member(const crew_member&) = delete;
  crew_member& operator=(const crew_member&) = delete;

  bool is(state s) const noexcept { return state_ == s; }
  /// Whether it must leave, even if the crew lacks members.
  bool is_retired() const noexcept { return is_retired_; }
  bool is_equipped() const noexcept { return is_equipped_; }

 private:
  friend class pool_crew;
  crew_member* previous_ = nullptr;  // its neighbour in the list of its state
  crew_member* next_ = nullptr;
  state state_ = state::gone;
  bool is_retired_ = false;
  bool is_equipped_ = false;
};

/// Counts the workers of a pool by state. Chooses which worker to wake, to start, to keep or to end when the wanted
/// number changes. A member may have equipment that is slow to get, so members without it are woken last and leave
/// first.
///
/// The state of a member changes only through its crew, so that the counts are right. Threads: its owner holds a lock.
class pool_crew {
 public:
  using state = crew_member::state;

  /// `needs_equipment`: a member must get equipment before it works.
  explicit pool_crew(bool needs_equipment = false) noexcept : needs_equipment_{needs_equipment} {}

  /// Adds a member, in the state gone.
  void add(crew_member& m) noexcept;

  std::size_t wanted() const noexcept { return wanted_; }
  void want(std::size_t n) noexcept { wanted_ = n; }

  /// The members with a coroutine that are not about to leave.
  std::size_t staying() const noexcept { return present_ - leaving_; }
  bool is_empty() const noexcept { return present_ == 0; }
  bool is_short() const noexcept { return staying() < wanted_; }
  bool is_too_large() const noexcept { return staying() > wanted_; }
  /// How many may work at once.
  std::size_t able() const noexcept { return std::min(staying(), wanted_); }
  /// How many of the able members have nothing to do, or are about to look for work.
  std::size_t free() const noexcept {
    const std::size_t most = able();
    const std::size_t busy = running_ + repairing_;
    return most > busy ? most - busy : 0;
  }
  std::size_t running() const noexcept { return running_; }
  std::size_t idle() const noexcept { return idle_; }
  /// The members that repair or rest.
  std::size_t repairing() const noexcept { return repairing_; }
  /// Whether a member looks for work, or runs a short operation and will soon look for work.
  bool is_on_the_move() const noexcept { return staying() > idle_ + running_long_ + repairing_; }
  /// The idle member that is woken first, or nullptr.
  crew_member* first_idle() const noexcept { return idle_list_.first; }

  // Which member to change so that the crew comes nearer to the wanted number, or nullptr.
  /// The idle member to send away: idle for longest, or without equipment.
  crew_member* to_leave() const noexcept { return is_too_large() ? idle_list_.last : nullptr; }
  /// The leaving member to keep: one with equipment, if there is one.
  crew_member* to_stay() const noexcept { return is_short() ? leaving_list_.first : nullptr; }
  /// The member to bring back: the one that has been gone for longest.
  crew_member* to_join() const noexcept { return is_short() ? gone_.first : nullptr; }

  // The equipment of a member.
  void equip(crew_member& m) noexcept;
  void unequip(crew_member& m) noexcept;
  std::size_t equipped() const noexcept { return equipped_; }

  // From gone to awake.
  void join(crew_member& m) noexcept;
  // From awake to running, and back.
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
  // From awake to resting or repairing, and back from either.
  void rest(crew_member& m) noexcept;
  void repair(crew_member& m) noexcept;
  void recover(crew_member& m) noexcept;
  // From awake to idle, and back. Inline, because both are called for each operation that finds an idle pool. The
  // member that worked last is woken first: its memory is warm, and the equipment of the others may be given up.
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
  // From awake or resting to leaving.
  void leave(crew_member& m) noexcept;
  // Like leave(), but the member can't stay any more. Also from leaving.
  void retire(crew_member& m) noexcept;
  // From leaving to awake.
  void stay(crew_member& m) noexcept;
  // From any state to gone, without equipment. If the member is running, its operation is a long one: a short one can't
  // be cut off.
  void lose(crew_member& m) noexcept;

 private:
  // A member is idle, gone or leaving, so it is in one list at most.
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
  list leaving_list_;  // the leaving members that may stay; members with equipment come first
  const bool needs_equipment_;
};

}  // namespace canigo::detail
