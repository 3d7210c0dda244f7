#include "gateway/upstream/link_pool.hpp"

#include <algorithm>
#include <chrono>

namespace canigo::gateway {
namespace {

// A connection that nobody uses for longer is closed: many servers close theirs after a minute.
constexpr duration kept_for = std::chrono::seconds{50};

resource_pool_options<link> options() {
  return {.concurrency = 1, .queue_limit = 1'000'000, .make = [] { return link{}; }, .idle_timeout = kept_for};
}

}  // namespace

void link_pool::enter() {
  if (!links_) links_.emplace(loop_, options());
  ++in_use_;
  const std::size_t most = most_.load(std::memory_order_relaxed);
  if (in_use_ <= workers_ || workers_ >= most) return;
  const std::size_t wanted = std::min(2 * workers_, most);
  try {
    links_->resize(wanted);
    workers_ = wanted;
  } catch (...) {  // no memory: it waits for a worker that is there
  }
}

void link_pool::close_idle() noexcept {
  if (!links_) return;
  const std::size_t wanted = in_use_;
  try {
    if (wanted == 0) {
      links_.reset();
    } else {
      links_->resize(wanted);
    }
    workers_ = std::max<std::size_t>(wanted, 1);
  } catch (...) {  // no memory: they stay
  }
}

}  // namespace canigo::gateway
