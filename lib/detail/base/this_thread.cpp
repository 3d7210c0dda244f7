#include "canigo/detail/base/this_thread.hpp"

#include <chrono>
#include <thread>

namespace canigo::detail {

context_visit*& innermost_visit() noexcept {
  static constinit thread_local context_visit* visit = nullptr;
  return visit;
}

void wait_until(bool (*ready)(const void*), const void* object) noexcept {
  // How often the thread yields before it begins to sleep. Usually the thread waits until another thread has ended a
  // post. A post is short, but the other thread needs a processor core for it.
  constexpr int most_yields = 64;
  constexpr std::chrono::microseconds pause{50};
  for (int i = 0; i < most_yields; ++i) {
    if (ready(object)) return;
    std::this_thread::yield();
  }
  while (!ready(object)) std::this_thread::sleep_for(pause);
}

}  // namespace canigo::detail
