#include "gateway/process/recent_errors.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace canigo::gateway {

bool recent_errors::entry::is_like(const entry& other) const noexcept {
  const auto cause = [](const entry& e) {
    return std::tie(e.status, e.upstream, e.tenant, e.priority, e.error, e.detail);
  };
  return cause(*this) == cause(other);
}

void recent_errors::note(const call_record& r) {
  constexpr int first_of_servers = 500;
  if (r.error.empty() && r.status < first_of_servers) return;
  entry e{.time = r.time,
          .id = r.id,
          .tenant = std::string{r.tenant},
          .priority = std::string{r.priority},
          .upstream = std::string{r.upstream},
          .method = shortened(r.method, 20),
          .path = shortened(r.path),
          .error = std::string{r.error},
          .detail = r.texts ? shortened(r.texts->detail) : std::string{},
          .status = r.status,
          .attempts = r.attempts,
          .waited = r.waited};
  const std::lock_guard lock{mutex_};
  if (const auto like = std::ranges::find_if(entries_, [&](const entry& o) { return o.is_like(e); });
      like != entries_.end()) {
    e.count = like->count + 1;
    entries_.erase(like);
  }
  if (entries_.size() == most) entries_.pop_back();
  entries_.push_front(std::move(e));
}

std::vector<recent_errors::entry> recent_errors::all() const {
  const std::lock_guard lock{mutex_};
  return {entries_.begin(), entries_.end()};
}

}  // namespace canigo::gateway
