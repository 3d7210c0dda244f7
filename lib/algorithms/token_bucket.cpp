#include "canigo/algorithms/token_bucket.hpp"

#include "canigo/error.hpp"

#include <limits>

namespace canigo {
namespace {

using detail::int128;
using detail::uint128;

constexpr std::int64_t latest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t earliest = std::numeric_limits<std::int64_t>::min();

constexpr uint128 divide_up(uint128 dividend, uint128 divisor) noexcept {
  return dividend / divisor + (dividend % divisor != 0);
}

void check_burst(std::uint64_t burst) {
  if (burst < 1 || burst > token_bucket::max_burst) detail::throw_invalid("token_bucket.burst", burst, "1 to 2^62");
}

}  // namespace

token_bucket::token_bucket(const canigo::rate& supply, std::uint64_t burst, std::uint64_t initial_tokens,
                           time_point now)
    : origin_(now.time_since_epoch().count()),
      taken_(burst - initial_tokens),
      tokens_(static_cast<std::uint64_t>(supply.reduced().tokens())),
      period_(static_cast<std::uint64_t>(supply.reduced().period().count())),
      burst_(burst) {
  check_burst(burst);
  if (initial_tokens > burst)
    detail::throw_invalid("token_bucket.initial_tokens", initial_tokens, "0 to the burst of " + std::to_string(burst));
}

time_point token_bucket::ready_at(time_point now, std::uint64_t tokens) const noexcept {
  const bool brimful = overflows(gained(now));
  const std::int64_t origin = brimful ? now.time_since_epoch().count() : origin_;
  const uint128 taken = uint128{brimful ? 0 : taken_} + tokens;
  if (taken <= burst_) return now;
  const uint128 wait = divide_up((taken - burst_) * period_, tokens_);
  const auto room = static_cast<std::uint64_t>(latest) - static_cast<std::uint64_t>(origin);
  if (wait >= room) return time_point::max();
  const std::uint64_t at = static_cast<std::uint64_t>(origin) + static_cast<std::uint64_t>(wait);
  return std::max(now, time_point{duration{static_cast<std::int64_t>(at)}});
}

std::int64_t token_bucket::available(time_point now) const noexcept {
  const uint128 credit = gained(now);
  const uint128 debit = spent(taken_);
  if (debit <= credit) return static_cast<std::int64_t>(burst_);
  const auto missing = static_cast<std::uint64_t>(divide_up(debit - credit, period_));
  const int128 left = int128{burst_} - int128{missing};
  return left < earliest ? earliest : static_cast<std::int64_t>(left);
}

void token_bucket::refund(time_point now, std::uint64_t tokens) noexcept {
  taken_ -= std::min(taken_, tokens);
  if (full(gained(now))) fill(now);
}

void token_bucket::charge(time_point now, std::uint64_t tokens) noexcept {
  if (overflows(gained(now))) fill(now);
  if (taken_ > reanchor_above) reanchor(now);
  taken_ += std::min(tokens, most_taken - taken_);
}

void token_bucket::set_rate(time_point now, const canigo::rate& supply) noexcept {
  const canigo::rate target = supply.reduced();
  const auto tokens = static_cast<std::uint64_t>(target.tokens());
  const auto period = static_cast<std::uint64_t>(target.period().count());
  if (tokens == tokens_ && period == period_) return;
  const uint128 credit = gained(now);
  if (full(credit)) {
    fill(now);
  } else {
    // `whole` is the number of tokens that the bucket lacks, rounded up. So a fraction of one of these tokens has
    // already accumulated. The new origin lies before now by the time in which the new rate produces this fraction,
    // rounded down.
    const uint128 missing = spent(taken_) - credit;
    const uint128 whole = divide_up(missing, period_);
    const uint128 fraction = whole * period_ - missing;
    const auto since = static_cast<std::uint64_t>(fraction * period / (uint128{period_} * tokens));
    const std::int64_t at = std::max(origin_, now.time_since_epoch().count());
    const auto room = static_cast<std::uint64_t>(at) - static_cast<std::uint64_t>(earliest);
    origin_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(at) - std::min(since, room));
    taken_ = static_cast<std::uint64_t>(whole);
  }
  tokens_ = tokens;
  period_ = period;
}

void token_bucket::set_burst(time_point now, std::uint64_t burst) {
  check_burst(burst);
  if (overflows(gained(now))) fill(now);
  if (burst > burst_) {
    taken_ = std::min(taken_ + (burst - burst_), most_taken);
  } else {
    taken_ -= std::min(taken_, burst_ - burst);
    if (full(gained(now))) fill(now);
  }
  burst_ = burst;
}

void token_bucket::fill(time_point now) noexcept {
  origin_ = std::max(origin_, now.time_since_epoch().count());
  taken_ = 0;
}

// Moves the origin forward by whole periods, and subtracts the tokens of these periods from taken_. So the level of the
// bucket does not change. The origin must not move past `now`, because a bucket with an origin in the future would
// count as full.
void token_bucket::reanchor(time_point now) noexcept {
  const std::uint64_t periods = std::min(taken_ / tokens_, elapsed(now) / period_);
  origin_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(origin_) + periods * period_);
  taken_ -= periods * tokens_;
}

}  // namespace canigo
