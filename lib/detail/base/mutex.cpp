#include "canigo/detail/base/mutex.hpp"

#include <chrono>
#include <thread>

namespace canigo::detail {
namespace {

inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

// A section lasts some tens of nanoseconds, less than a cache line takes to another core. So whoever finds the lock
// taken stands back for about a microsecond: two threads that want it all the time then have it for a dozen operations
// each, where they would hand over the lock, and all that it guards, at every one. A holder that does not run needs a
// core, which it gets from a yield if ours will do, and from a sleep if its priority is lower.
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
