#pragma once

#include <cstdint>
#include <utility>

namespace canigo::detail {

/// The cancellation of the operation that a worker runs. Operations are numbered, so a cancellation never affects a
/// later operation.
///
/// A function that is posted to the worker's strand delivers the cancellation. This function is posted again until the
/// operation ends. So this class can count the turns of the strand in which the operation ignores the cancellation.
/// Threads: not thread-safe; its owner must hold a lock.
class worker_cancel {
 public:
  /// How many turns of its strand an operation gets to end after its cancellation signal. If the operation still runs
  /// after these turns, the pool reports the end of the task to the caller, and does not wait for the operation.
  static constexpr std::uint32_t turns_to_end = 32;

  /// Call it when the operation must end. Returns true if the function that delivers the cancellation is not posted
  /// yet. Then the caller must post this function to the strand.
  bool ask(std::uint64_t operation) noexcept {
    wanted_ = operation;
    return !std::exchange(is_under_way_, true);
  }
  /// Call it when the function that delivers the cancellation runs. Returns true if the operation must get its
  /// cancellation signal now. An operation gets the signal only once.
  bool begin(std::uint64_t operation) noexcept {
    if (!is_for(operation) || given_ == operation) return false;
    given_ = operation;
    turns_ = 0;
    return true;
  }
  /// Call it if there was no memory to give the operation its signal. Then the next call of begin() returns true again.
  void take_back() noexcept { given_ = 0; }
  /// Call it when the function that delivers the cancellation has ended, and is not posted again.
  void end() noexcept { is_under_way_ = false; }

  bool is_for(std::uint64_t operation) const noexcept { return wanted_ == operation; }
  bool has_reached(std::uint64_t operation) const noexcept { return given_ == operation; }
  /// Call it after each turn of the strand that follows the cancellation signal. Returns true after more than
  /// `turns_to_end` turns.
  bool is_ignored() noexcept { return ++turns_ > turns_to_end; }

 private:
  std::uint64_t wanted_ = 0;
  std::uint64_t given_ = 0;
  std::uint32_t turns_ = 0;
  bool is_under_way_ = false;
};

}  // namespace canigo::detail
