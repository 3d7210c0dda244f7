#pragma once

#include <cstdint>
#include <utility>

namespace canigo::detail {

/// The cancellation of what a worker runs. Operations have numbers, so that a cancellation never reaches the next one.
///
/// A call to the worker's strand carries the cancellation out. It comes again and again until the operation ends, so
/// it also counts the turns in which the operation ignores it. Threads: none; its owner holds a lock.
class worker_cancel {
 public:
  /// An operation has this many turns of its strand to end in. After that its caller is told without it.
  static constexpr std::uint32_t turns_to_end = 32;

  /// Call it when the operation must end. True: the call must be posted, because none is under way.
  bool ask(std::uint64_t operation) noexcept {
    wanted_ = operation;
    return !std::exchange(is_under_way_, true);
  }
  /// Call it when the call has come. True: the operation gets its signal now. It gets only one.
  bool begin(std::uint64_t operation) noexcept {
    if (!is_for(operation) || given_ == operation) return false;
    given_ = operation;
    turns_ = 0;
    return true;
  }
  /// Call it when there was no memory for the signal.
  void take_back() noexcept { given_ = 0; }
  /// Call it when the call is over.
  void end() noexcept { is_under_way_ = false; }

  bool is_for(std::uint64_t operation) const noexcept { return wanted_ == operation; }
  bool has_reached(std::uint64_t operation) const noexcept { return given_ == operation; }
  /// Call it after each turn. Returns whether the operation has used up its turns.
  bool is_ignored() noexcept { return ++turns_ > turns_to_end; }

 private:
  std::uint64_t wanted_ = 0;
  std::uint64_t given_ = 0;
  std::uint32_t turns_ = 0;
  bool is_under_way_ = false;
};

}  // namespace canigo::detail
