#include "canigo/detail/mutex.hpp"

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

// A section lasts well below a microsecond: a holder that runs is gone after some pauses. Each look takes the lock's
// cache line from whoever works with it, so the looks grow rarer. A holder that does not run needs a core, which it
// gets from a yield if ours will do, and from a sleep if its priority is lower.
constexpr int most_pauses = 64;
constexpr int yields = 16;
constexpr std::chrono::microseconds nap{50};

}  // namespace

void mutex::lock_slowly() noexcept {
  for (int pauses = 1; pauses <= most_pauses; pauses *= 2) {
    for (int i = 0; i < pauses; ++i) relax();
    if (try_lock()) return;
  }
  for (int i = 0; i < yields; ++i) {
    if (try_lock()) return;
    std::this_thread::yield();
  }
  while (!try_lock()) std::this_thread::sleep_for(nap);
}

}  // namespace canigo::detail
