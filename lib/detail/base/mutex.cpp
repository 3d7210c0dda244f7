#include "canigo/detail/base/mutex.hpp"

#include "canigo/detail/base/relax.hpp"

#include <chrono>
#include <thread>

namespace canigo::detail {
namespace {

// A critical section takes some tens of nanoseconds, less than the transfer of a cache line between cores. So a thread
// that finds the lock taken waits for about a microsecond. Then two contending threads take turns, with about a dozen
// operations per turn. Without this wait, the lock, and all data that it guards, would move between cores at each
// operation.
//
// If the holder is not running, it needs a core. A waiting thread that yields gives up its own core for the holder. A
// waiting thread that sleeps gives up its core even if the holder has a lower priority.
constexpr int looks = 2;
constexpr int pauses = 64;
constexpr int yields = 16;
constexpr std::chrono::microseconds nap{50};

}  // namespace

void mutex::lock_slowly() noexcept {
  for (int i = 0; i < looks; ++i) {
    for (int j = 0; j < pauses; ++j) relax();
    if (try_lock()) return;
  }
  for (int i = 0; i < yields; ++i) {
    if (try_lock()) return;
    std::this_thread::yield();
  }
  while (!try_lock()) std::this_thread::sleep_for(nap);
}

}  // namespace canigo::detail
