#include "canigo/detail/told/quota_name.hpp"

#include "canigo/detail/base/ascii.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace canigo::detail {
namespace {

using namespace std::chrono_literals;
using part = quota_name::part;

struct prefix {
  std::string_view text;
  quota_family family;
};
constexpr prefix prefixes[] = {{"x-ratelimit-", quota_family::common},
                               {"ratelimit-", quota_family::draft},
                               {"anthropic-ratelimit-", quota_family::anthropic},
                               {"x-rate-limit-", quota_family::spaced},
                               {"x-hubspot-ratelimit-", quota_family::hubspot},
                               {"x-ratelimitbysize-", quota_family::by_size},
                               {"ratelimitbysize-", quota_family::by_size}};

struct window_word {
  std::string_view text;
  duration length;
};
constexpr window_word windows[] = {{"second", 1s}, {"secondly", 1s}, {"minute", 1min}, {"hour", 1h},
                                   {"day", 24h},   {"daily", 24h},   {"month", 720h},  {"monthly", 720h}};

/// Combines the words of a header field's name, such as "limit", "requests" and "minute", into one quota_name. At most
/// one word may name the kind of the number ("limit"), one the unit ("requests"), and one the period ("minute").
class words {
 public:
  bool take(std::string_view word) noexcept {
    const auto is = [&](std::string_view w) { return same_text(word, w); };
    if (is("remaining")) return tells(part::left);
    if (is("limit") || is("max")) return tells(part::limit);
    if (is("reset")) return tells(part::reset);
    if (is("after") && what_ == part::reset) {
      what_ = part::reset_after;
      return true;
    }
    if (is("resource") || is("bucket")) return tells(part::resource);
    if (is("milliseconds")) return tells(part::window_ms);
    if (is("interval")) return true;
    if (is("requests") || is("request") || is("req")) return counts(told_unit::requests);
    if (is("input")) return counts(told_unit::input_tokens);
    if (is("output")) return counts(told_unit::output_tokens);
    if (is("tokens") || is("token")) return counts_input_or_output() || counts(told_unit::tokens);
    const auto* const w = std::ranges::find_if(windows, [&](const window_word& x) { return is(x.text); });
    if (w == std::end(windows) || window_ != duration::zero()) return false;
    window_ = w->length;
    return true;
  }

  std::optional<quota_name> name(quota_family family) const noexcept {
    // A name without a word for the kind of its number, such as X-HubSpot-RateLimit-Daily, stands for the limit of a
    // quota. Such a name must contain a window, such as "Daily".
    if (!what_ && window_ == duration::zero()) return std::nullopt;
    const told_unit usual = family == quota_family::by_size ? told_unit::tokens : told_unit::requests;
    return quota_name{what_.value_or(part::limit), family, unit_.value_or(usual), unit_.has_value(), window_};
  }

 private:
  bool tells(part p) noexcept {
    if (what_) return false;
    what_ = p;
    return true;
  }
  bool counts_input_or_output() const noexcept {
    return unit_ == told_unit::input_tokens || unit_ == told_unit::output_tokens;
  }
  bool counts(told_unit u) noexcept {
    if (unit_) return false;
    unit_ = u;
    return true;
  }

  std::optional<part> what_;
  std::optional<told_unit> unit_;
  duration window_ = duration::zero();
};

}  // namespace

std::optional<quota_name> parse_quota_name(std::string_view name) noexcept {
  const auto* const p =
      std::ranges::find_if(prefixes, [&](const prefix& x) { return same_text(name.substr(0, x.text.size()), x.text); });
  if (p == std::end(prefixes)) return std::nullopt;
  words all;
  for (std::string_view rest = name.substr(p->text.size());;) {
    const auto end = rest.find('-');
    if (!all.take(rest.substr(0, end))) return std::nullopt;
    if (end == std::string_view::npos) return all.name(p->family);
    rest.remove_prefix(end + 1);
  }
}

}  // namespace canigo::detail
