#include "canigo/detail/told/told_limits.hpp"

#include "canigo/detail/base/ascii.hpp"
#include "canigo/detail/time/date_text.hpp"
#include "canigo/detail/time/decimal_seconds.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace canigo::detail {
namespace {

using std::chrono::sys_seconds;
using part = quota_name::part;

/// Reads a whole number such as "5" or "5.0"; a fraction is dropped. Returns nothing for any other text.
std::optional<std::uint64_t> parse_count(std::string_view text) noexcept {
  const std::string_view whole = text.substr(0, text.find('.'));
  const std::string_view fraction = text.substr(std::min(whole.size() + 1, text.size()));
  if (whole.size() + 1 == text.size() || !std::ranges::all_of(fraction, is_digit)) return std::nullopt;
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), count);
  if (error != std::errc{} || end != whole.data() + whole.size()) return std::nullopt;
  return count;
}

/// Reads a number of milliseconds; a fraction is rounded up. Returns nothing for any other text.
std::optional<duration> parse_ms(std::string_view text) noexcept {
  const auto as_seconds = parse_decimal_seconds(text, duration::max());
  if (!as_seconds) return std::nullopt;
  return std::chrono::ceil<std::chrono::milliseconds>(*as_seconds / 1'000);
}

template <class T>
void keep_longest(std::optional<T>& kept, const std::optional<T>& found) noexcept {
  if (found) kept = std::max(kept.value_or(*found), *found);
}

template <class T>
void keep_first(std::optional<T>& kept, const std::optional<T>& found) noexcept {
  if (!kept) kept = found;
}

void keep_least(std::optional<std::uint64_t>& kept, const std::optional<std::uint64_t>& found) noexcept {
  if (found) kept = std::min(kept.value_or(*found), *found);
}

/// Returns the text of `rest` before the next `mark` outside of quotes. Removes that text and the mark from `rest`.
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
  const std::string_view next = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return trim(next);
}

std::string_view without_quotes(std::string_view text) noexcept {
  return text.size() >= 2 && text.front() == '"' && text.back() == '"' ? text.substr(1, text.size() - 2) : text;
}

/// Converts the times in a response to waits. The current time is taken from the response's Date field; without this
/// field, it is taken from the local clock.
class clock_of_response {
 public:
  clock_of_response(std::string_view date, std::chrono::system_clock::time_point now, duration most) noexcept
      : now_{parse_http_date(date).value_or(std::chrono::floor<std::chrono::seconds>(now))}, most_{most} {}

  std::optional<duration> until(const std::optional<sys_seconds>& t) const noexcept {
    if (!t) return std::nullopt;
    // The difference is computed in whole seconds, because the clock's 64-bit nanoseconds can't represent dates after
    // 2262.
    const auto wait = *t - now_;
    if (wait <= wait.zero()) return duration::zero();
    return wait >= std::chrono::ceil<std::chrono::seconds>(most_) ? most_ : duration{wait};
  }
  std::optional<duration> bounded(const std::optional<duration>& d) const noexcept {
    return d ? std::optional{std::min(*d, most_)} : std::nullopt;
  }

  std::optional<duration> reset(std::string_view text, bool is_after) const noexcept {
    if (const auto seconds = parse_decimal_seconds(text, duration::max())) {
      // A number of seconds below 30 years is a wait, because no quota takes longer to refill. A larger number is a
      // date, counted from 1970: in seconds if it has at most 11 digits, else in milliseconds.
      constexpr duration decades = std::chrono::hours{24} * 365 * 30;
      constexpr std::size_t digits_of_seconds = 11;
      if (is_after || *seconds < decades) return bounded(seconds);
      const std::string_view whole = text.substr(0, text.find('.'));
      return since_1970(whole.size() > digits_of_seconds ? milliseconds_of(whole) : *seconds);
    }
    if (const auto span = parse_go_duration(text)) return bounded(span);
    if (const auto date = parse_rfc3339(text)) return until(date);
    return until(parse_http_date(text));
  }

 private:
  static duration milliseconds_of(std::string_view digits) noexcept {
    constexpr auto most = std::chrono::duration_cast<std::chrono::milliseconds>(duration::max());
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    return error != std::errc{} || count > most.count() ? duration::max() : duration{std::chrono::milliseconds{count}};
  }
  duration since_1970(duration t) const noexcept {
    constexpr auto most = std::chrono::duration_cast<std::chrono::seconds>(duration::max());
    const auto now = std::clamp(now_.time_since_epoch(), std::chrono::seconds{0}, most);
    return std::clamp(t - now, duration::zero(), most_);
  }

  sys_seconds now_;
  duration most_;
};

}  // namespace

bool told_limits::has_used_up() const noexcept {
  return std::ranges::any_of(quotas(), [](const told_quota& q) { return q.is_used_up(); });
}

std::optional<duration> told_limits::reset_of_used_up(bool is_refused) const noexcept {
  std::optional<duration> longest;
  for (const told_quota& q : quotas()) {
    if (q.is_used_up() && (is_refused || !q.refills)) keep_longest(longest, q.reset);
  }
  return longest;
}

std::optional<duration> told_limits::wait_of_refusal() const noexcept {
  return retry_after ? retry_after : reset_of_used_up(true);
}

/// Returns the entry of a quota. If there is none, makes it. Returns null if there is no space for another entry.
limit_fields::row* limit_fields::find(const quota_name& key, std::string_view policy) noexcept {
  for (std::size_t i = 0; i < size_; ++i) {
    if (rows_[i].key == key && rows_[i].policy == policy) return &rows_[i];
  }
  if (size_ == rows_.size()) return nullptr;
  row& r = rows_[size_++];
  r.key = key;
  r.policy = policy;
  r.told.unit = key.unit;
  if (key.window != duration::zero()) r.told.window = key.window;
  // Quotas of OpenAI and Anthropic refill continuously. The reset time in a response is the time at which the quota is
  // full.
  r.told.refills = key.names_unit && key.window == duration::zero();
  return &r;
}

void limit_fields::take(std::string_view name, std::string_view value) noexcept {
  value = trim(value);
  const auto is = [&](std::string_view n) { return same_text(name, n); };
  if (is("Date")) {
    if (date_.empty()) date_ = value;
  } else if (is("Retry-After")) {
    keep_longest(retry_seconds_, parse_decimal_seconds(value, duration::max()));
    keep_longest(retry_date_, parse_http_date(value));
  } else if (is("retry-after-ms")) {
    keep_longest(retry_ms_, parse_ms(value));
  } else if (is("x-amz-retry-after")) {
    keep_longest(amazon_ms_, parse_ms(value));
  } else if (is("x-should-retry")) {
    forbids_retry_ = forbids_retry_ || same_text(value, "false");
  } else if (is("RateLimit") || is("RateLimit-Policy")) {
    take_list(value, is("RateLimit-Policy"));
  } else if (is("X-Shopify-Shop-Api-Call-Limit")) {
    const auto slash = value.find('/');
    if (slash == std::string_view::npos) return;
    const auto used = parse_count(trim(value.substr(0, slash)));
    const auto limit = parse_count(trim(value.substr(slash + 1)));
    row* const r = used && limit ? find({.family = quota_family::common, .names_unit = true}, "shopify") : nullptr;
    if (r == nullptr) return;
    r->told.limit = limit;
    keep_least(r->told.left, *limit - std::min(*used, *limit));
  } else if (const auto quota = parse_quota_name(name)) {
    take_part(*quota, value);
  }
}

void limit_fields::take_part(const quota_name& name, std::string_view value) noexcept {
  if (name.what == part::resource) {
    if (resource_.empty()) resource_ = value;
    return;
  }
  quota_name key = name;
  key.what = part::limit;  // so that find() returns the same row for all information about one quota
  row* const r = find(key, {});
  if (r == nullptr) return;
  switch (name.what) {
    case part::limit:
      // In some versions of the IETF draft, the value of RateLimit-Limit is a list. The first element of the list is
      // the limit that counts.
      keep_first(r->told.limit, parse_count(trim(value.substr(0, value.find_first_of(",;")))));
      break;
    case part::left:
      while (!value.empty()) {
        std::string_view element = next_part(value, ',');
        keep_least(r->told.left, parse_count(next_part(element, ';')));
      }
      break;
    case part::reset:
    case part::reset_after:
      // If a response names both a relative and an absolute reset time, as Discord's responses do, the relative time
      // counts.
      if (!r->reset.empty() && !(name.what == part::reset_after && !r->is_reset_after)) break;
      r->reset = value;
      r->is_reset_after = name.what == part::reset_after;
      break;
    case part::window_ms:
      keep_first(r->told.window, parse_ms(value));
      break;
    case part::resource:
      break;
  }
}

/// Reads both formats of the RateLimit field: `"a";r=0;t=30, "b";r=5;t=60` of later IETF drafts, and `limit=9,
/// remaining=0, reset=30` of an earlier draft.
void limit_fields::take_list(std::string_view list, bool is_policy) noexcept {
  while (!list.empty()) take_element(next_part(list, ','), is_policy);
}

void limit_fields::take_element(std::string_view element, bool is_policy) noexcept {
  std::string_view policy;
  for (std::string_view rest = element; !rest.empty();) {
    const std::string_view name = next_part(rest, ';');
    if (name.find('=') == std::string_view::npos || name.starts_with('"')) policy = without_quotes(name);
  }
  // If an element names no policy, its values are stored in the entry without a policy name. That entry also stores the
  // values of the fields RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset.
  row* const r = find({}, policy);
  if (r == nullptr) return;
  while (!element.empty()) {
    const std::string_view parameter = next_part(element, ';');
    const auto equals = parameter.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = trim(parameter.substr(0, equals));
    const std::string_view value = trim(parameter.substr(equals + 1));
    if (is_policy) {
      if (name == "q") keep_first(r->told.limit, parse_count(value));
      if (name == "w") keep_first(r->told.window, parse_decimal_seconds(value, duration::max()));
      if (name == "qu") r->is_of_other_unit = without_quotes(value) != "requests";
    } else {
      if (name == "r" || name == "remaining") keep_least(r->told.left, parse_count(value));
      if (name == "limit") keep_first(r->told.limit, parse_count(value));
      if ((name == "t" || name == "reset") && r->reset.empty()) r->reset = value;
    }
  }
}

told_limits limit_fields::read(std::chrono::system_clock::time_point now, duration most) const noexcept {
  told_limits told;
  told.forbids_retry = forbids_retry_;
  // Most responses report no limits. This early return saves parsing the Date field of such a response.
  if (size_ == 0 && !retry_ms_ && !retry_seconds_ && !retry_date_ && !amazon_ms_) return told;
  const clock_of_response clock{date_, now, std::max(most, duration::zero())};
  told.retry_after = clock.bounded(retry_ms_);
  if (!told.retry_after) {
    told.retry_after = clock.bounded(retry_seconds_);
    keep_longest(told.retry_after, clock.until(retry_date_));
  }
  if (!told.retry_after) told.retry_after = clock.bounded(amazon_ms_);
  for (std::size_t i = 0; i < size_; ++i) {
    const row& r = rows_[i];
    if (r.is_of_other_unit || !r.told.left) continue;
    told_quota& q = told.all[told.size++];
    q = r.told;
    q.reset = clock.reset(r.reset, r.is_reset_after);
    if (r.key.family == quota_family::common && !r.key.names_unit) q.resource = resource_;
  }
  return told;
}

}  // namespace canigo::detail
