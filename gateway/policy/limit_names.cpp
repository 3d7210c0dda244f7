#include "gateway/policy/limit_names.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace canigo::gateway {
namespace {

std::string name_of_rate(const std::vector<rate_limit>& rates, std::size_t index) {
  const rate_limit& own = rates[index];
  std::string name = own.unit.empty() ? "requests" : own.unit;
  name.append("/").append(to_string(own.rate.period()));
  const auto same = [&](const rate_limit& r) { return r.unit == own.unit && r.rate.period() == own.rate.period(); };
  const auto before = std::ranges::count_if(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(index), same);
  if (before > 0) name.append("#").append(std::to_string(before + 1));
  return name;
}

}  // namespace

std::vector<std::string> names_of_rates(const std::vector<rate_limit>& rates) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < rates.size(); ++i) names.push_back(name_of_rate(rates, i));
  return names;
}

std::string name_of(const wait_reason& why, const std::vector<rate_limit>& rates) {
  switch (why.binds) {
    case wait_reason::cause::none:
      return {};
    case wait_reason::cause::paused:
      return "paused";
    case wait_reason::cause::rate:
      return why.index < rates.size() ? name_of_rate(rates, why.index) : "rate";
    case wait_reason::cause::concurrency:
      return "concurrency";
    case wait_reason::cause::share:
      return "share";
    case wait_reason::cause::flow:
      return why.ceiling == wait_reason::cause::paused ? "paused" : "tenant";
    case wait_reason::cause::alternatives:
      return "targets";
    case wait_reason::cause::sublimit:
      return "model";
  }
  return {};
}

std::string name_of(const wait_reason& why, const upstream& u, const model_limit* m) {
  if (why.binds == wait_reason::cause::sublimit && m != nullptr)
    return name_of({.binds = why.ceiling, .index = why.index}, m->rates) + " of " + m->match;
  if (why.binds != wait_reason::cause::alternatives || why.alternative >= u.targets.size())
    return name_of(why, u.rates);
  const target& t = u.targets[why.alternative];
  const std::string name = name_of({.binds = why.ceiling, .index = why.index}, t.rates);
  return why.ceiling == wait_reason::cause::paused ? name : name + " of " + t.name;
}

std::string rate_fields(const std::vector<rate_limit>& rates, const wait_reason& why, duration reset) {
  if (rates.empty()) return {};
  std::string text = "RateLimit-Policy: ";
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const rate& r = rates[i].rate;
    if (i > 0) text += ", ";
    text.append(1, '"').append(name_of_rate(rates, i)).append("\";q=").append(std::to_string(r.tokens()));
    // The parameter "w" of RateLimit-Policy counts whole seconds. So it is left out if the period is not a whole number
    // of seconds.
    if (const auto window = std::chrono::floor<std::chrono::seconds>(r.period()); window == r.period())
      text.append(";w=").append(std::to_string(window.count()));
    if (!rates[i].unit.empty() && rates[i].unit != "requests") text.append(";qu=\"").append(rates[i].unit).append("\"");
  }
  text += "\r\n";
  const bool is_known = why.binds == wait_reason::cause::rate && why.index < rates.size();
  if (!is_known && rates.size() > 1) return text;
  const auto after = std::chrono::ceil<std::chrono::seconds>(reset).count();
  text.append("RateLimit: \"").append(name_of_rate(rates, is_known ? why.index : 0));
  return text.append("\";r=0;t=").append(std::to_string(after)).append("\r\n");
}

}  // namespace canigo::gateway
