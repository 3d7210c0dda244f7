#include "gateway/upstream/model_limits.hpp"

#include "gateway/policy/wire_window.hpp"
#include "gateway/upstream/target_limit.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace canigo::gateway {
namespace {

/// Whether a model may have a sublimit of its own: its name has at most 64 characters, all of them visible ASCII, and
/// no '*', which marks a pattern.
bool is_plain_model(std::string_view model) noexcept {
  constexpr std::size_t longest = 64;
  return model.size() <= longest && std::ranges::all_of(model, [](char c) { return c > 0x20 && c < 0x7f && c != '*'; });
}

}  // namespace

model_limits::model_limits(limiter& home, std::vector<model_limit> terms)
    : home_{home}, began_{std::chrono::steady_clock::now()}, terms_{std::move(terms)}, by_name_(terms_.size()) {
  for (std::size_t i = 0; i < terms_.size(); ++i) entries_.push_back(i);
}

std::vector<sublimit_options> model_limits::options_of(const std::vector<model_limit>& terms) {
  std::vector<sublimit_options> all;
  for (const model_limit& m : terms)
    all.push_back({.name = m.match, .rates = on_the_wire(m.rates), .concurrency = m.concurrency});
  return all;
}

int model_limits::of(std::string_view model) {
  if (model.empty()) return no_sublimit;
  const std::lock_guard lock{mutex_};
  const auto found = std::ranges::find_if(terms_, [&](const model_limit& m) { return is_of_model(m.match, model); });
  if (found == terms_.end()) return no_sublimit;
  const auto entry = static_cast<std::size_t>(found - terms_.begin());
  const int shared = static_cast<int>(entry);
  if (!found->is_for_each()) return shared;
  auto& names = by_name_[entry];
  if (const auto known = names.find(model); known != names.end()) return known->second;
  if (entries_.size() == most_model_limits || !is_plain_model(model)) return shared;
  const auto name = names.emplace(model, shared).first;
  name->second = home_.add_sublimit(
      {.name = name->first, .rates = on_the_wire(found->rates), .concurrency = found->concurrency}, began_);
  entries_.push_back(entry);
  return name->second;
}

std::size_t model_limits::entry_of(int sublimit) const {
  const std::lock_guard lock{mutex_};
  return entries_[static_cast<std::size_t>(sublimit)];
}

void model_limits::change(const std::vector<model_limit>& next) {
  const std::lock_guard lock{mutex_};
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const model_limit& was = terms_[entries_[i]];
    const model_limit& is = next[entries_[i]];
    sublimit_handle at = home_.sublimit(i);
    change_rates(at, was.rates, is.rates);
    if (was.concurrency != is.concurrency) at.set_concurrency(is.concurrency);
  }
  terms_ = next;
}

}  // namespace canigo::gateway
