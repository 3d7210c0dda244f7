#include "canigo/detail/queue/units.hpp"

#include "canigo/error.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace canigo::detail {

unit_table::unit_table(const std::vector<std::string>& of_rates, const char* field) {
  names_.push_back(of_rates.empty() ? std::string{} : of_rates.front());
  for (std::size_t rate = 0; rate < of_rates.size(); ++rate) {
    const std::string& name = of_rates[rate];
    std::size_t unit = name.empty() ? 0 : static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
    if (unit == names_.size()) {
      if (unit == most_units) {
        throw_invalid(std::string{field} + '[' + std::to_string(rate) + "].unit", '"' + name + '"', listed(0));
      }
      names_.push_back(name);
    }
    of_rate_.push_back(static_cast<std::uint8_t>(unit));
  }
}

std::size_t unit_table::find(const unit_key& unit) const noexcept {
  if (unit.is_number()) return std::min(unit.number(), names_.size());
  if (unit.name().empty()) return names_.size();
  return static_cast<std::size_t>(std::ranges::find(names_, unit.name()) - names_.begin());
}

bool unit_table::resolve(std::uint64_t tokens, const unit_amounts& amounts, amounts_by_unit& result) const noexcept {
  result = {tokens};
  unsigned seen = 1;
  for (const unit_amount& a : amounts) {
    const std::size_t unit = find(a.unit);
    if (unit == names_.size() || (seen >> unit & 1) != 0) return false;
    seen |= 1u << unit;
    result[unit] = a.amount;
  }
  return true;
}

void unit_table::check(const unit_amounts& amounts) const {
  unsigned seen = 0;
  std::size_t index = 0;
  for (const unit_amount& a : amounts) {
    const std::size_t unit = find(a.unit);
    const std::string field = "request.amounts[" + std::to_string(index++) + "].unit";
    if (unit == names_.size()) throw_invalid(field, quoted(a.unit), listed(1));
    if (unit == 0) throw_invalid(field, quoted(a.unit), listed(1) + "; request.tokens is the amount of that unit");
    if ((seen >> unit & 1) != 0) throw_invalid(field, quoted(a.unit) + " again", "each unit once");
    seen |= 1u << unit;
  }
}

std::string unit_table::quoted(const unit_key& unit) {
  return unit.is_number() ? std::to_string(unit.number()) : '"' + std::string{unit.name()} + '"';
}

std::string unit_table::listed(std::size_t first) const {
  std::string text;
  for (std::size_t unit = first; unit < names_.size(); ++unit) {
    if (!text.empty()) text += ", ";
    text += names_[unit].empty() ? std::to_string(unit) : '"' + names_[unit] + '"';
  }
  return text.empty() ? "none, because this limit has no other unit" : text;
}

unit_records::~unit_records() {
  while (free_ != nullptr) delete take_from(free_);
  while (promised_ != nullptr) delete take_from(promised_);
}

void unit_records::put_back(unit_record* r) noexcept {
  r->next = free_;
  free_ = r;
}

unit_record& unit_records::promise(time_point granted_at) noexcept {
  unit_record* const r = pop();
  r->granted_at = granted_at;
  r->next = promised_;
  promised_ = r;
  return *r;
}

/// Returns a record that was reserved for a request with this key and these amounts. Precondition: there is such a
/// record. If two requests have equal keys and amounts, each may take the other's record, which makes no difference.
unit_record* unit_records::take_promised(const lane_key& asked, const amounts_by_unit& amounts) noexcept {
  unit_record** at = &promised_;
  const auto is_for = [&](const unit_record& r) {
    return r.asked == asked.set && r.sublimit == asked.sublimit && r.amounts == amounts;
  };
  while (!is_for(**at)) at = &(*at)->next;
  return take_from(*at);
}

bool unit_records::add() noexcept {
  auto* const r = new (std::nothrow) unit_record;
  if (r == nullptr) return false;
  put_back(r);
  return true;
}

unit_record* unit_records::pop() noexcept {
  unit_record* const r = take_from(free_);
  r->granted_at = time_point::min();
  return r;
}

unit_record* unit_records::take_from(unit_record*& list) noexcept { return std::exchange(list, list->next); }

}  // namespace canigo::detail
