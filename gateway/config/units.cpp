#include "gateway/config/units.hpp"

#include <algorithm>
#include <cstddef>

namespace canigo::gateway {
namespace {

bool counts(const std::vector<rate_limit>& rates, std::string_view unit) noexcept {
  return std::ranges::find(rates, unit, &rate_limit::unit) != rates.end();
}

}  // namespace

const model_limit* limit_of_model(const upstream& u, std::string_view model) noexcept {
  if (model.empty()) return nullptr;
  const auto found = std::ranges::find_if(u.models, [&](const model_limit& m) { return is_of_model(m.match, model); });
  return found == u.models.end() ? nullptr : &*found;
}

bool counts(const upstream& u, std::string_view unit) noexcept {
  return counts(u.rates, unit) ||
         std::ranges::any_of(u.targets, [&](const target& t) { return counts(t.rates, unit); }) ||
         std::ranges::any_of(u.models, [&](const model_limit& m) { return counts(m.rates, unit); });
}

std::uint64_t least_burst(const std::vector<rate_limit>& rates, std::string_view unit) noexcept {
  std::uint64_t least = unlimited;
  for (const rate_limit& r : rates)
    if (r.unit == unit) least = std::min(least, r.burst);
  return least;
}

std::uint64_t most_of(const upstream& u, std::string_view unit, target_set of) noexcept {
  const std::uint64_t most = least_burst(u.rates, unit);
  std::uint64_t of_targets = 0;
  for (std::size_t i = 0; i < u.targets.size(); ++i)
    if (has(of, i)) of_targets = std::max(of_targets, least_burst(u.targets[i].rates, unit));
  // `of_targets` is 0 if the upstream lists no targets, or if the set `of` is empty. For an empty set the result has no
  // effect, because a request without targets is refused before it reaches a limit.
  return of_targets == 0 ? most : std::min(most, of_targets);
}

}  // namespace canigo::gateway
