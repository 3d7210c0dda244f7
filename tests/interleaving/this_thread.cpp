// What a thread of a model has of its own, and how it waits: in place of the library's, for which all fibers are one
// thread.

#include "canigo/detail/base/this_thread.hpp"

#include "explorer.hpp"

namespace canigo::detail {

context_visit*& innermost_visit() noexcept { return interleaving::explorer::innermost_visit(); }

void wait_until(bool (*ready)(const void*), const void* object) noexcept {
  interleaving::explorer::step("wait");
  if (!ready(object)) interleaving::explorer::wait(ready, object);
}

}  // namespace canigo::detail
