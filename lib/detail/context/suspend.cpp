#include "canigo/detail/context/suspend.hpp"

namespace canigo::detail {

namespace {
thread_local posting* innermost = nullptr;
}

posting::posting(suspended& s) noexcept : suspended_{&s}, outer_{std::exchange(innermost, this)} {}

posting::~posting() { innermost = outer_; }

posting* posting::find(const suspended& s) noexcept {
  posting* p = innermost;
  while (p != nullptr && p->suspended_ != &s) p = p->outer_;
  return p;
}

bool posting::is_under_way(const suspended& s) noexcept { return find(s) != nullptr; }

bool posting::note_dropped(const suspended& s) noexcept {
  posting* p = find(s);
  if (p != nullptr) p->dropped_ = true;
  return p != nullptr;
}

}  // namespace canigo::detail
