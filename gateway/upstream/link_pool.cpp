#include "gateway/upstream/link_pool.hpp"

#include "canigo/error.hpp"

#include <asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

// How long an idle connection is kept. Many servers close idle connections after a minute.
constexpr duration idle_kept_for = std::chrono::seconds{50};

}  // namespace

struct link_pool::idle {
  struct entry {
    std::unique_ptr<link> of;
    time_point since;
  };

  explicit idle(const net::any_io_executor& loop) : sweep{loop} {}

  /// Closes the connections that have been idle for `idle_kept_for`. Schedules the next check for the time at which the
  /// next connection reaches this idle time.
  static void look(const std::shared_ptr<idle>& self) {
    const time_point oldest_kept = clock::now() - idle_kept_for;
    const auto first_kept = std::ranges::find_if(self->all, [&](const entry& e) { return e.since > oldest_kept; });
    self->all.erase(self->all.begin(), first_kept);
    self->is_swept = false;
    if (self->all.empty()) return;
    self->sweep.expires_at(self->all.front().since + idle_kept_for);
    self->sweep.async_wait([weak = std::weak_ptr{self}](const error_code& error) {
      if (error) return;
      if (const auto there = weak.lock()) look(there);
    });
    self->is_swept = true;
  }

  std::vector<entry> all;  // sorted by the last use; the most recently used connection is the last
  net::steady_timer sweep;
  bool is_swept = false;
};

link_pool::link_pool(const net::any_io_executor& loop, std::size_t most)
    : most_{most}, idle_{std::make_shared<idle>(loop)} {}

link_pool::~link_pool() = default;

void link_pool::close_idle() noexcept { idle_->all.clear(); }

std::unique_ptr<link> link_pool::take() {
  if (idle_->all.empty()) return std::make_unique<link>();
  auto newest = std::move(idle_->all.back().of);
  idle_->all.pop_back();
  return newest;
}

void link_pool::put(std::unique_ptr<link> l) noexcept {
  if (idle_->all.size() >= most_.load(std::memory_order_relaxed)) return;
  try {
    idle_->all.push_back({std::move(l), clock::now()});
    if (!idle_->is_swept) idle::look(idle_);
  } catch (...) {
    // If there is no memory to store the connection in the list of idle connections, the connection is closed. If there
    // is no memory for the timer that closes idle connections, the next put() sets the timer.
  }
}

}  // namespace canigo::gateway
