#include "gateway/policy/token_ratios.hpp"

#include <algorithm>

namespace canigo::gateway {

double token_ratios::of(std::string_view model) const {
  const std::lock_guard lock{mutex_};
  const auto found = models_.find(model);
  return found == models_.end() ? 1 : found->second.ratio;
}

void token_ratios::learn(std::string_view model, std::uint64_t estimated, std::uint64_t used) {
  if (estimated == 0) return;
  constexpr double weight = 0.125;
  const double seen = std::clamp(static_cast<double>(used) / static_cast<double>(estimated), least, most);
  const std::lock_guard lock{mutex_};
  auto found = models_.find(model);
  if (found == models_.end()) {
    if (models_.size() == most_models)
      models_.erase(std::ranges::min_element(models_, {}, [](const auto& m) { return m.second.turn; }));
    found = models_.emplace(model, entry{}).first;
  }
  found->second.ratio += (seen - found->second.ratio) * weight;
  found->second.turn = ++turn_;
}

}  // namespace canigo::gateway
