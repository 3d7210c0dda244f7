#include "canigo/detail/pool/pool_names.hpp"

#include <utility>

namespace canigo::detail {

name_stats& pool_names::of(std::string_view name) {
  auto found = entries_.find(name);
  if (found == entries_.end() && entries_.size() >= most - 1) found = entries_.find(name = "(other)");
  if (found == entries_.end()) {
    name_stats stats;
    stats.name = name;
    found = entries_.emplace(name, std::move(stats)).first;
  }
  return found->second;
}

void pool_names::write(std::vector<name_stats>& stats, std::vector<const std::string*>& texts) const noexcept {
  auto to = stats.begin();
  for (const auto& [name, counted] : entries_) {
    to->attempts = counted.attempts;
    to->succeeded = counted.succeeded;
    to->failed = counted.failed;
    to->waited = counted.waited;
    to->ran = counted.ran;
    texts.push_back(&counted.name);
    ++to;
  }
}

}  // namespace canigo::detail
