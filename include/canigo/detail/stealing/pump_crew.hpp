#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/stealing/pump.hpp"

#include <array>
#include <cstddef>
#include <memory>

namespace canigo::detail {

/// The pumps (work queues) of a loop, and the work that no pump has taken yet.
///
/// A pump is an operation of the loop. It runs up to 256 items in a turn; then the loop runs it again after other ready
/// handlers. So no thread is bound to a pump, and a thread may leave the loop between two turns: another thread
/// continues the pump, with all items in the pump.
///
/// A pump is idle, seeks or works. It seeks while it is posted to the loop, and while it looks for work. This class
/// counts how many threads run pumps at the same time. The number of working pumps is at most the largest count so far.
/// So with one thread all items run in order. One additional pump may seek, so that a further thread can run it and is
/// counted.
///
/// These rules ensure that no work waits while a thread of the loop is idle:
/// - A thread that adds work checks afterwards whether a pump seeks, and posts an idle pump if none does.
/// - A pump that stops seeking checks all work once more afterwards. In both rules, a full fence separates the first
///   step (adding work, or the end of seeking) from the check. So one of the two threads sees the other's first step.
/// - When the last seeking pump finds work, and there is more work, it posts another pump. At each turn, a working pump
///   with more work also posts another pump if no pump seeks. That is needed because the last seeking pump may have
///   become idle while no thread ran this working pump.
class pump_crew {
 public:
  pump_crew(const pump_crew&) = delete;
  pump_crew& operator=(const pump_crew&) = delete;

  /// Adds work. `here` is the pump that the calling thread runs, or nullptr. `is_continuation`: the item continues the
  /// running item, which is about to end, so no further thread is needed.
  void push(pump* here, work_item& item, bool is_continuation) noexcept;
  /// Runs a pump that was posted to the loop. If an item throws, the exception leaves this function. The pump then
  /// continues in its next turn.
  void turn(pump& p);

 protected:
  /// Makes the first pump. Throws std::bad_alloc if there is no memory for it.
  pump_crew();
  ~pump_crew() = default;

  /// Posts a call of turn(p) to the loop.
  virtual void bring(pump& p) noexcept = 0;
  virtual bool is_loop_stopped() const noexcept = 0;

  /// Removes and returns all work that has not begun. Precondition: no thread runs a pump.
  item_list<work_item> take_all() noexcept;

 private:
  static constexpr std::size_t most_pumps = 256;

  bool begin(pump& p) noexcept;
  void put_back(pump& p) noexcept;
  work_item* find(pump& p) noexcept;
  work_item* seek(pump& p) noexcept;
  void retire(pump& p) noexcept;
  void take_share(pump& p) noexcept;
  bool has_work() const noexcept;
  void call_help() noexcept;
  void wake_one() noexcept;
  pump* idle_or_new() noexcept;
  std::size_t injected() const noexcept { return injected_size_.load(std::memory_order_acquire); }

  // While all threads have work, these variables are rarely written. So they do not share a cache line with mutex_.
  alignas(64) atomic<int> seekers_{0};
  atomic<int> threads_{1};       // max number of threads that have run pumps at the same time so far
  atomic<std::size_t> made_{0};  // size of pumps_
  std::array<std::unique_ptr<pump>, most_pumps> pumps_;

  alignas(64) mutex mutex_;  // guards the members below, and changes of threads_ and made_
  pump* idle_ = nullptr;
  int working_ = 0;  // number of pumps that work
  int running_ = 0;  // number of pumps that a thread is running

  alignas(64) mutex injection_mutex_;
  item_list<work_item> injected_;
  atomic<std::size_t> injected_size_{0};  // size of injected_; changed under the lock
};

}  // namespace canigo::detail
