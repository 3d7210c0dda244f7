#include "sync_plan.hpp"

#include "canigo/algorithms/backoff.hpp"
#include "canigo/detail/base/random.hpp"
#include "canigo/error.hpp"

#include "cause.hpp"
#include "session.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

namespace canigo::redis::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The delays between calls to Redis during an outage. They are short, because the Redis client adds its own delays if
// it can't reach the server. The sum of both delays is less than 2 s.
constexpr backoff after_failures{.first = milliseconds{50}, .cap = milliseconds{500}};

// During this time after a failed call to Redis, requests are decided without Redis. If another call begins in this
// time, they are decided without Redis until that call ends. The time is longer than the longest delay between calls.
// So while requests come, the next call begins before this time has passed.
constexpr duration known_for = seconds{1};

// Bounds of the time after which a call of the script is late. When a call is late, impatient requests, which must not
// wait, are decided immediately. In mode closed the lower bound is longer, because that mode refuses these requests,
// although the call may be late only because the machine is busy.
constexpr duration decided_if_closed = milliseconds{500};
constexpr duration decided_soonest = milliseconds{200};
constexpr duration decided_latest = seconds{2};

// The time limit of a call that only checks whether Redis is back.
constexpr duration longest_probe = milliseconds{500};

// The value of rate_share::unit for a rate that counts no tokens.
constexpr std::size_t no_unit = canigo::detail::most_units;

std::uint64_t amount_of(const canigo::detail::demand& wanted, std::size_t unit) noexcept {
  return unit == no_unit ? 0 : wanted.of(unit);
}

// If Redis does not answer, the modes open and local decide a waiting request without Redis when this time is left
// until the request's deadline. If the request's whole wait is shorter than 80 ms, they decide it when a quarter of
// that wait is left.
constexpr duration last_moment = milliseconds{20};

}  // namespace

sync_plan::sync_plan(const options& o, std::uint64_t random) : options_{o}, random_{random} {
  shares_.reserve(std::max<std::size_t>(1, o.rates));
}

void sync_plan::is_useful_at(time_point t) noexcept { next_at_ = std::min(next_at_, t); }

void sync_plan::request_came() noexcept {
  if (is_failing_ && !is_closed()) is_wanted_ = true;
}

void sync_plan::call_begins(time_point now, duration answer_within) noexcept {
  is_under_way_ = true;
  is_decided_ = is_hinted_ = is_wanted_ = false;
  // during an outage, requests are decided without Redis until this call has ended
  if (now < known_until_) known_until_ = time_point::max();
  next_at_ = time_point::max();
  called_at_ = now;
  const duration soonest = is_closed() ? decided_if_closed : decided_soonest;
  late_at_ = saturating_add(now, std::clamp(answer_within, soonest, decided_latest));
}

void sync_plan::recovered() noexcept {
  is_failing_ = is_permanent_ = is_wanted_ = false;
  cause_.clear();
  cause_text_.clear();
  failing_since_ = time_point::max();
  known_until_ = time_point::min();
  failures_ = 0;
  retry_at_ = time_point::min();
  has_share_ = false;
}

void sync_plan::answered(time_point now, duration renew_in) noexcept { renew_at_ = saturating_add(now, renew_in); }

bool sync_plan::failed(time_point now, std::error_code cause, std::string text, bool is_permanent,
                       const limit_settings& s) noexcept {
  const bool is_new = fails(cause, std::move(text), is_permanent);
  begin_share(now, s);
  ++failures_;
  retry_at_ = saturating_add(now, after_failures.delay(failures_, canigo::detail::next_random(random_)));
  known_until_ = saturating_add(now, known_for);
  return is_new;
}

bool sync_plan::fails(std::error_code cause, std::string text, bool is_permanent) noexcept {
  const bool is_new = !std::exchange(is_failing_, true);
  cause_ = cause;
  cause_text_ = std::move(text);
  is_permanent_ = is_permanent;
  if (is_new) failing_since_ = share_at_ = called_at_;
  return is_new;
}

bool sync_plan::turns_late(time_point now) noexcept { return is_late(now) && !std::exchange(is_decided_, true); }

void sync_plan::do_without_until_answer(const limit_settings& s) noexcept {
  // During an outage, requests are decided without Redis until the running call has ended.
  if (is_failing_) known_until_ = time_point::max();
  begin_share(called_at_, s);
}

void sync_plan::stop() noexcept {
  is_failing_ = true;
  retry_at_ = time_point::max();
}

/// Returns this process's share of a rate and of its burst: the part that the process may use while Redis does not
/// answer.
std::pair<canigo::rate, std::uint64_t> sync_plan::share_of(const rate_setting& r) const noexcept {
  const double part = options_.on_failure.share();
  const auto longest = static_cast<double>(duration::max().count() / 2);
  const duration period{static_cast<duration::rep>(std::min(static_cast<double>(r.period) * 1000 / part, longest))};
  const auto burst = static_cast<std::uint64_t>(static_cast<double>(r.burst) * part);
  return {canigo::rate{static_cast<std::int64_t>(r.tokens), period}, std::max<std::uint64_t>(1, burst)};
}

void sync_plan::rates_changed(time_point now, const limit_settings& s) noexcept {
  if (!has_share_) return;
  for (std::size_t i = 0; i < std::min(s.rate_count, shares_.size()); ++i) {
    if (s.rates[i].tokens == 0) continue;
    const auto [supply, burst] = share_of(s.rates[i]);
    shares_[i].bucket.set_rate(now, supply);
    shares_[i].bucket.set_burst(now, burst);
  }
  share_at_ = now;
}

/// Gives this process a share of each rate. The process may use the shares while Redis does not answer. The buckets of
/// the shares are empty at first.
void sync_plan::begin_share(time_point since, const limit_settings& s) noexcept {
  if (options_.on_failure.what() != failure_mode::kind::local || std::exchange(has_share_, true)) return;
  shares_.clear();
  for (std::size_t i = 0; i < std::min(s.rate_count, shares_.capacity()); ++i) {
    const rate_setting& r = s.rates[i];
    if (r.tokens == 0) {  // a rate without tokens is a placeholder and limits nothing: see limit_settings
      shares_.push_back({token_bucket{canigo::rate::per_second(1), 1, 0, since}, no_unit});
      continue;
    }
    const auto [supply, burst] = share_of(r);
    shares_.push_back({token_bucket{supply, burst, 0, since}, r.unit});
  }
}

/// Whether the limit has changes that Redis must get before the next renewal of the lease. If waiters leave during an
/// outage, no call is needed: Redis forgets these waiters when their session ends.
bool sync_plan::has_news(const needs& n) const noexcept {
  if (n.has_changes) return true;
  if (is_failing_ && !n.is_engaged && !n.may_hold_there) return false;
  return n.is_registered && n.has_returns;
}

/// Whether a call to Redis is needed immediately. After a failed call, the needed call does not begin before
/// `retry_at_`.
bool sync_plan::is_due(const needs& n) const noexcept {
  if (n.is_leaving) return !is_failing_ && (n.is_registered || n.has_changes);
  // During an outage, a request causes a call to find out whether Redis works again. This call is made even if the
  // request has already ended. Otherwise all later requests would be decided without Redis.
  if (is_failing_ && is_wanted_) return true;
  return has_news(n) || (n.is_engaged && (n.has_fresh || is_hinted_));
}

time_point sync_plan::next_call(const needs& n, time_point now) const noexcept {
  if (is_under_way_) return time_point::max();
  if (is_due(n)) return std::max(retry_at_, now);
  if (!n.is_engaged || n.is_leaving) return time_point::max();
  return std::max(n.has_waiters ? std::min(renew_at_, next_at_) : renew_at_, retry_at_);
}

time_point sync_plan::next_look(const needs& n, time_point now) const noexcept {
  time_point t = time_point::max();
  if (!n.has_waiters) return t;
  if (is_under_way_ && !is_decided_) t = std::max(late_at_, now);
  if (may_do_without(now)) t = std::min(t, share_at_);
  return t;
}

/// Returns the time limit of the next call to Redis. The limit is longer on a slow connection, up to a bound that
/// depends on the length of the lease.
duration sync_plan::time_limit(const needs& n, duration answer_within) const noexcept {
  // Without a registered session no lease can be lost, so the call may wait longer for a connection.
  const duration least = milliseconds{n.is_registered ? 20 : 1000};
  duration usual = std::clamp(options_.lease / 3, least, duration{seconds{2}});
  if (is_failing_ && !n.is_engaged && !has_news(n)) usual = std::min(usual, longest_probe);
  return std::max(usual, std::min(answer_within, longest_round_trip(options_.lease)));
}

bool sync_plan::is_closed() const noexcept {
  return options_.on_failure.what() == failure_mode::kind::closed || (is_failing_ && is_conflict(cause_));
}

bool sync_plan::is_away(time_point now, bool has_trouble) const noexcept {
  return is_failing_ || is_late(now) || (is_under_way_ && has_trouble);
}

bool sync_plan::may_do_without(time_point now) const noexcept {
  return is_failing_ && !is_closed() && now < known_until_;
}

std::error_code sync_plan::decide(time_point now, const canigo::detail::demand& wanted, time_point paused_until,
                                  const limit_settings& s, std::uint64_t set, std::size_t* from) noexcept {
  if (is_closed()) return is_permanent_ ? cause_ : make_error_code(errc::store_unavailable);
  begin_share(called_at_, s);
  if (now < paused_until) return net::error::would_block;
  if (options_.on_failure.what() == failure_mode::kind::open) {
    return options_.alternatives.empty() ? std::error_code{} : choose_next(set, *from);
  }
  const std::span<rate_share> own = own_shares();
  if (!fits(own, wanted)) return errc::store_unavailable;
  if (!options_.alternatives.empty()) {
    const std::error_code none = choose(now, wanted, set, *from);
    if (none) return none;
  }
  if (!has(own, now, wanted)) return net::error::would_block;
  take(own, now, wanted);
  if (!options_.alternatives.empty()) take(shares_of(options_.alternatives[*from]), now, wanted);
  return {};
}

/// Finds the alternative that serves a request: the one with the lowest `prefer` among the alternatives with free
/// capacity. If several have the same lowest `prefer`, chooses the one with the largest free part. Returns
/// would_block if a later attempt may find an alternative.
std::error_code sync_plan::choose(time_point now, const canigo::detail::demand& wanted, std::uint64_t set,
                                  std::size_t& from) noexcept {
  bool is_any_large_enough =
      set == 0;  // all alternatives that may serve the request are paused, so the request must wait
  bool is_found = false;
  double most = 0;
  for (std::size_t i = 0; i < options_.alternatives.size(); ++i) {
    if ((set >> i & 1) == 0) continue;
    const options::alternative& a = options_.alternatives[i];
    const std::span<rate_share> shares = shares_of(a);
    if (!fits(shares, wanted)) continue;
    is_any_large_enough = true;
    if (!has(shares, now, wanted)) continue;
    double room = 1;
    for (const auto& [bucket, unit] : shares) {
      if (amount_of(wanted, unit) == 0) continue;
      room = std::min(room, static_cast<double>(bucket.available(now)) / static_cast<double>(bucket.burst()));
    }
    const int best = is_found ? options_.alternatives[from].prefer : 0;
    if (is_found && (a.prefer > best || (a.prefer == best && room <= most))) continue;
    is_found = true;
    from = i;
    most = room;
  }
  if (is_found) return {};
  if (is_any_large_enough) return net::error::would_block;
  return errc::store_unavailable;
}

/// The counterpart of choose() for mode open, in which no alternative is limited. The alternatives with the lowest
/// `prefer` serve requests in turn.
std::error_code sync_plan::choose_next(std::uint64_t set, std::size_t& from) noexcept {
  if (set == 0) return net::error::would_block;
  const std::size_t many = options_.alternatives.size();
  bool is_found = false;
  for (std::size_t n = 0; n < many; ++n) {
    const std::size_t i = (turn_ + n) % many;
    if ((set >> i & 1) == 0) continue;
    if (is_found && options_.alternatives[i].prefer >= options_.alternatives[from].prefer) continue;
    is_found = true;
    from = i;
  }
  turn_ = from + 1;
  return {};
}

bool sync_plan::fits(std::span<rate_share> shares, const canigo::detail::demand& wanted) noexcept {
  return std::ranges::all_of(shares,
                             [&](const rate_share& s) { return amount_of(wanted, s.unit) <= s.bucket.burst(); });
}

bool sync_plan::has(std::span<rate_share> shares, time_point now, const canigo::detail::demand& wanted) noexcept {
  return std::ranges::all_of(shares, [&](const rate_share& s) {
    const std::uint64_t amount = amount_of(wanted, s.unit);
    return amount == 0 || s.bucket.can_take(now, amount);
  });
}

void sync_plan::take(std::span<rate_share> shares, time_point now, const canigo::detail::demand& wanted) noexcept {
  for (auto& [bucket, unit] : shares) {
    if (amount_of(wanted, unit) > 0) std::ignore = bucket.try_take(now, amount_of(wanted, unit));
  }
}

time_point sync_plan::ready_at(std::span<rate_share> shares, time_point now,
                               const canigo::detail::demand& wanted) noexcept {
  time_point last = now;
  for (const auto& [bucket, unit] : shares) {
    if (amount_of(wanted, unit) > 0) last = std::max(last, bucket.ready_at(now, amount_of(wanted, unit)));
  }
  return last;
}

std::span<sync_plan::rate_share> sync_plan::own_shares() noexcept {
  const std::size_t end = options_.alternatives.empty() ? shares_.size() : options_.alternatives.front().first;
  return std::span{shares_}.first(std::min(end, shares_.size()));
}

std::span<sync_plan::rate_share> sync_plan::shares_of(const options::alternative& a) noexcept {
  if (shares_.size() < a.end) return {};
  return std::span{shares_}.subspan(a.first, a.end - a.first);
}

bool sync_plan::has_common_share(time_point now, const canigo::detail::demand& wanted) noexcept {
  return has(own_shares(), now, wanted);
}

void sync_plan::look_again_for(time_point now, const canigo::detail::demand& wanted, time_point paused_until) noexcept {
  share_at_ = std::max(now, paused_until);
  if (now < paused_until) return;
  share_at_ = ready_at(own_shares(), now, wanted);
}

void sync_plan::look_again_for_any(time_point now, const canigo::detail::demand& wanted, std::uint64_t set,
                                   time_point resumes_at) noexcept {
  time_point first = resumes_at;
  for (std::size_t i = 0; i < options_.alternatives.size(); ++i) {
    const std::span<rate_share> shares = shares_of(options_.alternatives[i]);
    if ((set >> i & 1) != 0 && fits(shares, wanted)) first = std::min(first, ready_at(shares, now, wanted));
  }
  share_at_ = std::min(share_at_, std::max(first, ready_at(own_shares(), now, wanted)));
}

std::error_code sync_plan::refusal(bool waits) const noexcept {
  if (!is_failing_ || !is_closed()) return {};
  if (is_permanent_) return cause_;
  return waits ? std::error_code{} : make_error_code(errc::store_unavailable);
}

time_point sync_plan::end_of(const limit_request& r) const noexcept {
  const time_point deadline = r.wanted.deadline;
  if (!is_closed()) {
    if (r.has_looked || deadline == time_point::max()) return deadline;
    return deadline - std::min(last_moment, (deadline - r.since) / 4);
  }
  if (!is_failing_) return deadline;
  return std::min(deadline, saturating_add(std::max(r.since, failing_since_), options_.give_up));
}

}  // namespace canigo::redis::detail
