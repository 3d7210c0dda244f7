#include "canigo/detail/base/this_thread.hpp"

#include <chrono>
#include <thread>

namespace canigo::detail {

context_visit*& innermost_visit() noexcept {
  static constinit thread_local context_visit* visit = nullptr;
  return visit;
}

void wait_until(bool (*ready)(const void*), const void* object) noexcept {
  // What is waited for takes as long as a post. Another thread needs a core for that, so ours is given up soon.
  constexpr int yields = 64;
  constexpr std::chrono::microseconds nap{50};
  for (int i = 0; i < yields; ++i) {
    if (ready(object)) return;
    std::this_thread::yield();
  }
  while (!ready(object)) std::this_thread::sleep_for(nap);
}

}  // namespace canigo::detail
