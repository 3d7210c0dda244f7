#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/stealing/pump.hpp"

#include <array>
#include <cstddef>
#include <memory>

namespace canigo::detail {

/// The pumps of a loop, and the work that no pump has taken yet.
///
/// A pump is an operation of the loop. A turn of it runs up to 256 items, then the loop runs the pump again behind
/// whatever else is ready. So no thread belongs to this, and a thread may leave the loop between two turns: the pump
/// with its ring goes to another one.
///
/// A pump is idle; or it seeks, which means that it was brought to the loop or looks for work; or it works. At most as
/// many work as threads have been seen at once, so that with one thread all is in order. A thread is seen when it runs
/// a pump while others are being run. That is why one more pump than that may seek.
///
/// No work is left to wait while a thread of the loop is idle:
/// - A thread that adds work looks afterwards whether a pump seeks, and brings an idle one to the loop if none does.
/// - A pump that ceases to seek looks once more at all work afterwards. For both, a full fence lies between the step
///   and the look. So one of the two sees the step of the other.
/// - The last seeker that finds work looks for help if there is more. So does a pump at each turn: a seeker may have
///   gone because as many pumps as threads had work, though one of these was not being run.
class pump_crew {
 public:
  pump_crew(const pump_crew&) = delete;
  pump_crew& operator=(const pump_crew&) = delete;

  /// Adds work. `here` is the pump that the calling thread runs, or nullptr. An item that continues the running one,
  /// which is about to end, needs no other thread.
  void push(pump* here, work_item& item, bool is_continuation) noexcept;
  /// Runs a pump that was brought to the loop. An exception of an item comes out; the pump goes on in another turn.
  void turn(pump& p);

 protected:
  /// Throws std::bad_alloc if there is no memory for the first pump.
  pump_crew();
  ~pump_crew() = default;

  /// Has a thread of the loop call turn(p).
  virtual void bring(pump& p) noexcept = 0;
  virtual bool is_loop_stopped() const noexcept = 0;

  /// All work that no thread has begun. No thread runs a pump.
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

  // Written seldom while all threads have work.
  alignas(64) atomic<int> seekers_{0};
  atomic<int> threads_{1};       // that have been seen at once
  atomic<std::size_t> made_{0};  // of pumps_
  std::array<std::unique_ptr<pump>, most_pumps> pumps_;

  alignas(64) mutex mutex_;  // for the following, and the changes of threads_ and made_
  pump* idle_ = nullptr;
  int working_ = 0;  // pumps
  int running_ = 0;  // pumps that a thread runs

  alignas(64) mutex injection_mutex_;
  item_list<work_item> injected_;
  atomic<std::size_t> injected_size_{0};  // changed under the lock
};

}  // namespace canigo::detail
