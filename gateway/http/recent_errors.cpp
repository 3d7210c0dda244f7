#include "gateway/http/recent_errors.hpp"

namespace canigo::gateway {

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string{text};
  return std::string{text.substr(0, most)} + "…";
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
  if (entries_.size() == most) entries_.pop_back();
  entries_.push_front(std::move(e));
}

std::vector<recent_errors::entry> recent_errors::all() const {
  const std::lock_guard lock{mutex_};
  return {entries_.begin(), entries_.end()};
}

}  // namespace canigo::gateway
