#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

/// What a pool_crew knows of one of its members: the base of a worker.
class crew_member {
 public:
  enum class state : std::uint8_t {
    gone,       // has no coroutine
    awake,      // looks for work, or is on its way to do so
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

 private:
  friend class pool_crew;
  crew_member* previous_ = nullptr;  // of the idle
  crew_member* next_ = nullptr;
  state state_ = state::gone;
};

/// The workers of a pool: how many are wanted, how many do what, and which are idle.
///
/// No member changes its state but here, so that the numbers are right. Threads: none; its owner holds a lock.
class pool_crew {
 public:
  using state = crew_member::state;

  std::size_t wanted() const noexcept { return wanted_; }
  void want(std::size_t n) noexcept { wanted_ = n; }

  /// With a coroutine, and not about to leave.
  std::size_t staying() const noexcept { return present_ - leaving_; }
  bool is_empty() const noexcept { return present_ == 0; }
  bool is_short() const noexcept { return staying() < wanted_; }
  bool is_too_large() const noexcept { return staying() > wanted_; }
  /// How many may work at once.
  std::size_t able() const noexcept { return std::min(staying(), wanted_); }
  /// How many of those have nothing to do, or are about to look for it.
  std::size_t free() const noexcept {
    const std::size_t most = able();
    const std::size_t busy = running_ + repairing_;
    return most > busy ? most - busy : 0;
  }
  std::size_t running() const noexcept { return running_; }
  std::size_t idle() const noexcept { return idle_; }
  /// The resting too.
  std::size_t repairing() const noexcept { return repairing_; }
  /// Whether one of them goes from one short operation to the next.
  bool is_on_the_move() const noexcept { return staying() > idle_ + running_long_ + repairing_; }
  /// The idle one that goes first, or nullptr.
  crew_member* first_idle() const noexcept { return first_; }
  /// The one that would go last, or nullptr.
  crew_member* last_idle() const noexcept { return last_; }

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
  // From awake to idle, and back. Who is `in_front` goes first. Inline, as each operation that comes alone has both.
  void sleep(crew_member& m, bool in_front) noexcept {
    m.state_ = state::idle;
    m.previous_ = in_front ? nullptr : last_;
    m.next_ = in_front ? first_ : nullptr;
    (m.previous_ != nullptr ? m.previous_->next_ : first_) = &m;
    (m.next_ != nullptr ? m.next_->previous_ : last_) = &m;
    ++idle_;
  }
  void wake(crew_member& m) noexcept {
    m.state_ = state::awake;
    (m.previous_ != nullptr ? m.previous_->next_ : first_) = m.next_;
    (m.next_ != nullptr ? m.next_->previous_ : last_) = m.previous_;
    --idle_;
  }
  // From awake or resting.
  void leave(crew_member& m) noexcept;
  // From leaving to awake.
  void stay(crew_member& m) noexcept;
  // From wherever it is. What it runs is long: a short operation can't be cut off.
  void lose(crew_member& m) noexcept;

 private:
  std::size_t wanted_ = 0;
  std::size_t present_ = 0;
  std::size_t leaving_ = 0;
  std::size_t running_ = 0;
  std::size_t running_long_ = 0;
  std::size_t repairing_ = 0;
  std::size_t idle_ = 0;
  crew_member* first_ = nullptr;
  crew_member* last_ = nullptr;
};

}  // namespace canigo::detail
