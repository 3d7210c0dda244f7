#include "canigo/detail/base/mutex.hpp"

#include "canigo/detail/base/relax.hpp"

#include <chrono>
#include <thread>

namespace canigo::detail {
namespace {

// A section lasts some tens of nanoseconds, less than a cache line takes to another core. So a thread that finds the
// lock taken stands back for about a microsecond. Two threads that want the lock all the time then hold it for a dozen
// operations each. Otherwise they would hand over the lock, and all that it guards, at each operation. A holder that
// does not run needs a core: a yield gives it ours, and a sleep does so even if its priority is lower.
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
