#include "canigo/detail/context/suspend.hpp"

#include "canigo/detail/context/loop_inbox.hpp"
#include "canigo/detail/stealing/stealing_executor.hpp"
#include "canigo/detail/stealing/stealing_service.hpp"

#include <new>

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

void make_inbox(net::io_context& loop) noexcept {
  try {
    loop_inbox::of(loop);
  } catch (const std::bad_alloc&) {
    // If there is no memory, the loop gets no inbox. Then bring_to() posts each caller separately.
  }
}

void bring_to(net::io_context& loop, suspended& s) {
  loop_inbox* const inbox = loop_inbox::find(loop);
  inbox != nullptr ? inbox->push(s) : s.post();
}

stealing_service* pumps_in(const net::any_io_executor& executor) noexcept {
  const auto* const s = target_of<work_stealing_executor>(executor);
  return s != nullptr ? &s->service() : nullptr;
}

void push_to(stealing_service& pumps, suspended& s) noexcept { pumps.push(s, false); }

}  // namespace canigo::detail
