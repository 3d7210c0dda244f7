#include "canigo/detail/suspend.hpp"

namespace canigo::detail {

namespace {
thread_local posting* innermost = nullptr;
}

posting::posting(suspended& s) noexcept : suspended_{&s}, outer_{std::exchange(innermost, this)} {}

posting::~posting() { innermost = outer_; }

bool posting::note_dropped(const suspended& s) noexcept {
  for (posting* p = innermost; p != nullptr; p = p->outer_) {
    if (p->suspended_ == &s) {
      p->dropped_ = true;
      return true;
    }
  }
  return false;
}

}  // namespace canigo::detail
