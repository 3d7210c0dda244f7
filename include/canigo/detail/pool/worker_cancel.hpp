#pragma once

#include <cstdint>
#include <utility>

namespace canigo::detail {

/// The cancellation of the operation that a worker runs. Operations are numbered, so a cancellation never affects a
/// later one.
///
/// The cancellation is delivered by a call on the worker's strand. The call is posted again until the operation ends,
/// so it also counts the turns in which the operation ignores the cancellation. Threads: not thread-safe; its owner
/// must hold a lock.
class worker_cancel {
 public:
  /// The number of turns of its strand within which an operation that must end can end. After these turns, the pool
  /// reports the end of the task to the caller, and does not wait for the operation.
  static constexpr std::uint32_t turns_to_end = 32;

  /// Call it when the operation must end. Returns true if the caller must post a call to the strand, because no call is
  /// under way.
  bool ask(std::uint64_t operation) noexcept {
    wanted_ = operation;
    return !std::exchange(is_under_way_, true);
  }
  /// Call it when the posted call runs. Returns true if the operation must get its signal now; it gets only one.
  bool begin(std::uint64_t operation) noexcept {
    if (!is_for(operation) || given_ == operation) return false;
    given_ = operation;
    turns_ = 0;
    return true;
  }
  /// Call it if there was no memory to give the operation its signal. Then the next call of begin() tries again.
  void take_back() noexcept { given_ = 0; }
  /// Call it when the posted call has ended.
  void end() noexcept { is_under_way_ = false; }

  bool is_for(std::uint64_t operation) const noexcept { return wanted_ == operation; }
  bool has_reached(std::uint64_t operation) const noexcept { return given_ == operation; }
  /// Call it after each turn of the strand. Returns true if the operation has used up all of its turns.
  bool is_ignored() noexcept { return ++turns_ > turns_to_end; }

 private:
  std::uint64_t wanted_ = 0;
  std::uint64_t given_ = 0;
  std::uint32_t turns_ = 0;
  bool is_under_way_ = false;
};

}  // namespace canigo::detail
