#include "gateway/policy/token_amounts.hpp"

#include "gateway/config/units.hpp"

#include <algorithm>
#include <cmath>

namespace canigo::gateway {
namespace {

/// Whether a rate with this unit has a strict window: the upstream never gets more than the rate's limit in any window
/// of the rate's period.
bool is_strict(const std::vector<rate_limit>& rates, std::string_view unit) noexcept {
  return std::ranges::any_of(rates,
                             [&](const rate_limit& r) { return r.unit == unit && r.window == rate_window::strict; });
}

bool is_strict(const upstream& u, const tenant_limit* own, std::string_view unit,
               const model_limit* of_model) noexcept {
  return is_strict(u.rates, unit) || (own != nullptr && is_strict(own->rates, unit)) ||
         std::ranges::any_of(u.targets, [&](const target& t) { return is_strict(t.rates, unit); }) ||
         (of_model != nullptr && is_strict(of_model->rates, unit));
}

}  // namespace

std::uint64_t scaled(std::uint64_t tokens, double ratio) noexcept {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(tokens) * ratio));
}

std::uint64_t most_amount(const upstream& u, const tenant_limit* own, std::string_view unit, target_set of,
                          const model_limit* of_model) noexcept {
  std::uint64_t most = most_of(u, unit, of);
  if (of_model != nullptr) most = std::min(most, least_burst(of_model->rates, unit));
  return own == nullptr ? most : std::min(most, least_burst(own->rates, unit));
}

std::vector<token_amount> asked_amounts(const upstream& u, const tenant_limit* own, const token_estimate& e,
                                        double learned, std::uint64_t least, target_set of, micro_usd cost) {
  std::vector<token_amount> amounts;
  const model_limit* const of_model = limit_of_model(u, e.model);
  for (const std::string_view unit : {"requests", "tokens", "input_tokens", "output_tokens", "usd"}) {
    if (!counts(u, unit)) continue;
    // `learned` is the ratio of used to estimated tokens. For a strict window, a ratio below 1 counts as 1. Several
    // calls may begin before the first of them has reported its usage, and may use more than the average call.
    const double ratio = is_strict(u, own, unit, of_model) ? std::max(learned, 1.0) : learned;
    const std::uint64_t wanted = unit == "requests" ? 1
                                 : unit == "usd"    ? cost
                                 : unit == "tokens" ? std::max(scaled(e.input + e.output, ratio), least)
                                                    : scaled(unit == "input_tokens" ? e.input : e.output, ratio);
    const bool may_be_none = e.is_free || unit == "usd" || (unit == "output_tokens" && !e.has_output);
    amounts.push_back(
        {unit, std::clamp<std::uint64_t>(wanted, may_be_none ? 0 : 1, most_amount(u, own, unit, of, of_model))});
  }
  return amounts;
}

std::uint64_t used_amount(std::string_view unit, const token_usage& used, std::uint64_t output_weight) noexcept {
  if (unit == "tokens") return used.input + used.output * output_weight;
  if (unit == "input_tokens") return used.input;
  return unit == "output_tokens" ? used.output : 1;
}

}  // namespace canigo::gateway
