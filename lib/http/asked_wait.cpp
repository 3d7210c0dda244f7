#include "canigo/http/asked_wait.hpp"

#include "canigo/detail/time/decimal_seconds.hpp"
#include "canigo/http/retry_after.hpp"

#include "seconds.hpp"
#include "text.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace canigo::http {
namespace {

/// A quota as a server tells of it: how much is left, and when it is whole again.
struct told_quota {
  std::optional<std::string_view> left;
  std::optional<std::string_view> reset;
};

bool is_used_up(std::string_view left) noexcept {
  return !left.empty() && std::ranges::all_of(left, [](char c) { return c == '0'; });
}

/// The text up to the next `mark` outside of quotes, which is taken from `rest` with the mark.
std::string_view next_part(std::string_view& rest, char mark) noexcept {
  bool is_quoted = false;
  std::size_t at = 0;
  for (; at < rest.size(); ++at) {
    if (rest[at] == '\\' && is_quoted) {
      ++at;
    } else if (rest[at] == '"') {
      is_quoted = !is_quoted;
    } else if (rest[at] == mark && !is_quoted) {
      break;
    }
  }
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return detail::trim(part);
}

void note(std::string_view part, told_quota& q) noexcept {
  const auto equals = part.find('=');
  if (equals == std::string_view::npos) return;
  const std::string_view name = detail::trim(part.substr(0, equals));
  const std::string_view value = detail::trim(part.substr(equals + 1));
  if (name == "r" || name == "remaining") q.left = value;
  if (name == "t" || name == "reset") q.reset = value;
}

class reader {
 public:
  reader(const response& r, std::chrono::system_clock::time_point now, duration most) : now_{now}, most_{most} {
    if (const auto date = r.headers.find("Date")) now_ = detail::parse_date(*date).value_or(now);
  }

  void keep(std::optional<duration> wait) {
    if (wait) longest_ = std::max(longest_.value_or(*wait), *wait);
  }
  void keep(const told_quota& q) {
    if (q.left && is_used_up(*q.left) && q.reset) keep(canigo::detail::parse_decimal_seconds(*q.reset, most_));
  }
  /// `"a";r=0;t=30, "b";r=5;t=60` of the later versions, and `limit=9, remaining=0, reset=30` of an earlier one.
  void read_list(std::string_view list) {
    told_quota of_list;
    while (!list.empty()) {
      std::string_view element = next_part(list, ',');
      told_quota of_element;
      note(element, of_list);
      while (!element.empty()) note(next_part(element, ';'), of_element);
      keep(of_element);
    }
    keep(of_list);
  }
  /// Some servers tell a point in time. No quota takes 30 years to come back.
  void read_reset(std::string_view text) {
    constexpr duration decades = std::chrono::hours{24} * 365 * 30;
    const auto seconds = canigo::detail::parse_decimal_seconds(text, duration::max());
    if (!seconds) return;
    const duration since_1970 = std::chrono::duration_cast<duration>(now_.time_since_epoch());
    keep(std::clamp(*seconds < decades ? *seconds : *seconds - since_1970, duration::zero(), most_));
  }

  std::optional<duration> longest() const noexcept { return longest_; }

 private:
  std::chrono::system_clock::time_point now_;
  duration most_;
  std::optional<duration> longest_;
};

}  // namespace

std::optional<duration> asked_wait(const response& r, std::chrono::system_clock::time_point now, duration most) {
  most = std::max(most, duration::zero());
  reader all{r, now, most};
  constexpr int first_error = 400;
  if (r.status >= first_error) all.keep(retry_after(r, now, most));
  for (const header h : r.headers) {
    if (detail::same_text(h.name, "RateLimit")) all.read_list(h.value);
  }
  all.keep(told_quota{r.headers.find("RateLimit-Remaining"), r.headers.find("RateLimit-Reset")});
  const auto left = r.headers.find("X-RateLimit-Remaining");
  const auto reset = r.headers.find("X-RateLimit-Reset");
  if (left && is_used_up(detail::trim(*left)) && reset) all.read_reset(detail::trim(*reset));
  return all.longest();
}

}  // namespace canigo::http
