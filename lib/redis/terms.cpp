#include "terms.hpp"

#include "canigo/error.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

namespace canigo::redis::detail {
namespace {

using canigo::detail::throw_invalid;
using std::chrono::microseconds;

constexpr std::uint64_t exact_in_lua = std::uint64_t{1} << 53;

/// Converts a rate to N tokens per M microseconds, the unit of the server's clock. Returns 0 tokens for a rate that
/// can't be represented exactly.
rate_setting in_micros(const canigo::rate& r) noexcept {
  const auto least = r.reduced();
  const auto tokens = static_cast<std::uint64_t>(least.tokens());
  const auto period = static_cast<std::uint64_t>(least.period().count());
  const bool is_whole = period % 1000 == 0;
  const std::uint64_t most = exact_in_lua - 1;
  if (tokens > (is_whole ? most : most / 1000) || (is_whole ? period / 1000 : period) > most) return {};
  return is_whole ? rate_setting{.tokens = tokens, .period = period / 1000}
                  : rate_setting{.tokens = tokens * 1000, .period = period};
}

/// Returns the greatest burst with which Lua computes all products in the Redis script exactly; 0 if there is no such
/// burst.
std::uint64_t most_burst(const rate_setting& r) noexcept {
  if (r.tokens == 0) return 0;
  return std::min(most_tokens, (exact_in_lua - 1) / std::max(r.tokens, r.period / r.tokens + 1));
}

/// Returns an FNV-1a hash of the units of the rates, of whether there is a cap, and of the alternatives. Processes
/// whose limits differ in one of these values get different hashes.
std::uint64_t shape_of(const std::vector<rate_limit>& rates, const unit_table& units, bool has_cap,
                       const std::vector<alternative_terms>& alternatives) {
  std::uint64_t hash = 14695981039346656037u;
  const auto add = [&hash](unsigned char c) { hash = (hash ^ c) * 1099511628211u; };
  for (std::size_t i = 0; i < rates.size(); ++i) {
    for (const char c : units.name(units.of_rate(i))) add(static_cast<unsigned char>(c));
    add(0);
  }
  if (has_cap) add(1);
  for (const alternative_terms& a : alternatives) {
    add(2);
    add(static_cast<unsigned char>(a.rates));
    for (const char c : a.name) add(static_cast<unsigned char>(c));
    add(0);
  }
  return hash % (exact_in_lua - 1) + 1;
}

duration time_of(const rate_setting& r, double tokens) noexcept {
  const double ns = tokens * static_cast<double>(r.period) / static_cast<double>(r.tokens) * 1000;
  return ns < static_cast<double>(duration::max().count()) ? duration{static_cast<duration::rep>(ns)} : duration::max();
}

}  // namespace

std::uint64_t checked_tokens(std::string_view field, std::uint64_t n, std::uint64_t least) {
  if (n < least || n > most_tokens) throw_invalid(field, n, std::to_string(least) + " to 2^31");
  return n;
}

terms::terms(std::uint64_t permits, const std::vector<rate_limit>& rates, std::shared_ptr<const unit_table> units,
             std::vector<alternative_terms> alternatives)
    : units_{std::move(units)},
      alternatives_{std::move(alternatives)},
      own_rates_{rates.size()},
      paused_(alternatives_.size(), time_point::min()) {
  settings_.permits = permits;
  for (const alternative_terms& a : alternatives_) {
    own_rates_ -= a.rates;
    settings_.alternatives.push_back({.permits = a.permits});
  }
  // In the script's list of rates, the first rate is a common rate. If the limit has alternatives but no common rate, a
  // placeholder that limits nothing becomes the first rate.
  const std::size_t skipped = own_rates_ == 0 && !alternatives_.empty() ? 1 : 0;
  settings_.rate_count = rates.size() + skipped;
  if (skipped == 1) settings_.rates[0] = {.tokens = 0, .period = 0, .burst = 0};
  std::size_t first = own_rates_ + skipped;
  for (const alternative_terms& a : alternatives_) {
    first_rates_.push_back(first);
    first += a.rates;
  }
  for (totals* t : {&charged_, &charged_under_way_, &charged_and_answered_, &overdue_}) {
    t->at.resize(alternatives_.size());
  }
  if (units_ != nullptr) shape_ = shape_of(rates, *units_, permits > 0, alternatives_);
  std::size_t of = 0;  // if rates[i] is a rate of an alternative: the index of that alternative
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const std::size_t at = i + skipped;
    std::string field = units_ ? "limiter_options.rates[" + std::to_string(i) + "]." : "scheduler_options.";
    if (i >= own_rates_) {
      while (at >= end_of_rates(of)) ++of;
      field = "limiter_options.alternatives[" + std::to_string(of) + "].rates[" +
              std::to_string(at - first_rates_[of]) + "].";
    }
    adopt_rate(at, rates[i].rate, rates[i].burst, field + "burst", false);
    if (units_ != nullptr) settings_.rates[at].unit = units_->of_rate(i);
  }
}

void terms::check_index(const char* field, std::size_t index) const {
  if (index < own_rates_) return;
  throw_invalid(std::string{"limiter."} + field + ": index", index, "less than " + std::to_string(own_rates_));
}

void terms::adopt_rate(std::size_t index, const canigo::rate& r, std::uint64_t burst, const std::string& field,
                       bool is_of_rate) {
  rate_setting s = in_micros(r);
  const std::uint64_t most = most_burst(s);
  if (is_of_rate && burst > most) {
    throw_invalid(field, to_string(r),
                  "a rate that permits the burst of " + std::to_string(burst) + "; at this one " +
                      std::to_string(most) + " at most");
  }
  if (burst < 1 || burst > most) {
    throw_invalid(field, burst,
                  most == 0 ? "none at " + to_string(r) + ", which Redis can't count exactly"
                            : "1 to " + std::to_string(most) + " at " + to_string(r));
  }
  s.burst = burst;
  s.unit = settings_.rates[index].unit;
  settings_.rates[index] = s;
}

std::uint64_t terms::most(std::size_t unit) const noexcept {
  if (units_ == nullptr && settings_.rate_count == 0) return settings_.permits;
  return most_in(0, own_rates_, unit);
}

std::uint64_t terms::most_in(std::size_t first, std::size_t end, std::size_t unit) const noexcept {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = first; i < end; ++i) {
    const rate_setting& r = settings_.rates[i];
    if (r.unit == unit) least = std::min(least, r.burst);
  }
  return least;
}

bool terms::fits(const demand& wanted) const noexcept {
  for (std::size_t unit = 0; unit < (units_ != nullptr ? units_->size() : 1); ++unit) {
    if (wanted.of(unit) > most(unit)) return false;
  }
  return true;
}

void terms::set_permits(std::uint64_t n, time_point tell_until) noexcept {
  settings_.permits = n;
  unsaid_ |= setting::permits();
  tell_until_ = tell_until;
}

void terms::set_rate(std::size_t index, const canigo::rate& r, time_point tell_until) {
  check_index("set_rate", index);
  adopt_rate(index, r, settings_.rates[index].burst, units_ ? "limiter.set_rate: rate" : "scheduler.set_rate: rate",
             true);
  unsaid_ |= setting::rate_of(index);
  tell_until_ = tell_until;
}

void terms::set_burst(std::size_t index, std::uint64_t n, time_point tell_until) {
  check_index("set_burst", index);
  const rate_setting& r = settings_.rates[index];
  adopt_rate(index, canigo::rate{static_cast<std::int64_t>(r.tokens), duration{r.period} * 1000}, n,
             units_ ? "limiter.set_burst: burst" : "scheduler.set_burst: burst", false);
  unsaid_ |= setting::burst_of(index);
  tell_until_ = tell_until;
}

void terms::pause_until(time_point t, time_point now, time_point tell_until) noexcept {
  paused_until_ = t <= now ? time_point::min() : t;
  unsaid_ |= setting::pause();
  tell_until_ = tell_until;
}

void terms::charge(std::size_t unit, std::int64_t amount, time_point tell_until) noexcept {
  charged_.own[unit] += amount;
  tell_until_ = tell_until;
}

void terms::forget_overdue(time_point now) noexcept {
  if (tell_until_ > now) return;
  unsaid_ = {};
  overdue_ = charged_;
}

std::int64_t terms::us_of_pause(time_point until, time_point now) const noexcept {
  if (until == time_point::max()) return -1;
  return until <= now ? 0 : std::chrono::ceil<microseconds>(until - now).count();
}

void terms::write(sync_call& s, time_point now) const {
  s.settings = settings_;
  s.settings.pause = us_of_pause(paused_until_, now);
  s.changes = unsaid_;
  s.shape = shape_;
  s.units = units_ != nullptr ? units_->size() : 1;
  for (std::size_t unit = 0; unit < s.units; ++unit) {
    s.charged[unit] = {.before = charged_and_answered_.own[unit], .now = charged_.own[unit]};
  }
  s.alternatives.resize(alternatives_.size());
  for (std::size_t i = 0; i < alternatives_.size(); ++i) {
    s.settings.alternatives[i].pause = us_of_pause(paused_[i], now);
    sync_call::alternative& a = s.alternatives[i];
    a.prefer = alternatives_[i].prefer;
    a.rates = alternatives_[i].rates;
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      a.charged[unit] = {.before = charged_and_answered_.at[i][unit], .now = charged_.at[i][unit]};
    }
  }
}

void terms::call_begins() noexcept {
  unsaid_under_way_ = std::exchange(unsaid_, {});
  charged_under_way_ = charged_;
}

void terms::tell_again() noexcept { unsaid_ |= std::exchange(unsaid_under_way_, {}); }

void terms::told() noexcept { unsaid_under_way_ = {}; }

void terms::adopt(const limit_settings& s, time_point now) noexcept {
  settings_.version = s.version;
  if (!unsaid_.has(setting::permits())) settings_.permits = s.permits;
  const std::size_t rates = s.rate_count == settings_.rate_count ? s.rate_count : 0;
  for (std::size_t i = 0; i < rates; ++i) {
    rate_setting& own = settings_.rates[i];
    const rate_setting& theirs = s.rates[i];
    if (!unsaid_.has(setting::rate_of(i))) {
      own.tokens = theirs.tokens;
      own.period = theirs.period;
    }
    if (!unsaid_.has(setting::burst_of(i))) own.burst = theirs.burst;
  }
  const auto end_of = [now](std::int64_t pause) {
    return pause < 0 ? time_point::max() : pause == 0 ? time_point::min() : saturating_add(now, microseconds{pause});
  };
  if (!unsaid_.has(setting::pause())) paused_until_ = end_of(s.pause);
  if (s.alternatives.size() != alternatives_.size()) return;
  for (std::size_t i = 0; i < alternatives_.size(); ++i) {
    const alternative_setting& theirs = s.alternatives[i];
    if (!unsaid_.has(setting::permits_of(i))) settings_.alternatives[i].permits = theirs.permits;
    if (unsaid_.has(setting::pause_of(i))) continue;
    const bool may_end = !unsaid_.has(setting::longer_pause_of(i));
    paused_[i] = may_end ? end_of(theirs.pause) : std::max(paused_[i], end_of(theirs.pause));
  }
}

void terms::heard(time_point called_at, duration quarantine,
                  const std::array<duration, most_rates>& empty_in) noexcept {
  closed_until_ = saturating_add(called_at, quarantine);
  is_heard_ = true;
  for (std::size_t i = 0; i < settings_.rate_count; ++i) empty_at_[i] = saturating_add(called_at, empty_in[i]);
}

time_point terms::opens_at(time_point now) const noexcept { return std::max({now, paused_until_, closed_until_}); }

duration terms::time_until(const std::array<double, most_units>& tokens, time_point now) const noexcept {
  return time_in(0, own_rates_, tokens, now);
}

duration terms::time_in(std::size_t first, std::size_t end, const std::array<double, most_units>& tokens,
                        time_point now) const noexcept {
  duration longest = duration::zero();
  if (!is_heard_) return longest;
  for (std::size_t i = first; i < end; ++i) {
    const rate_setting& r = settings_.rates[i];
    if (tokens[r.unit] <= 0) continue;
    // Tokens accumulate since the bucket was empty, up to the burst. The computation uses durations instead of
    // instants, because the bucket may have been empty before the clock's earliest instant.
    const duration full = time_of(r, static_cast<double>(r.burst));
    const duration empty_in = saturating_add(empty_at_[i], full) <= now ? -full : empty_at_[i] - now;
    longest = std::max(longest, saturating_add(time_point{empty_in}, time_of(r, tokens[r.unit])).time_since_epoch());
  }
  return longest;
}

}  // namespace canigo::redis::detail
