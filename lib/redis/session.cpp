#include "session.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

namespace canigo::redis::detail {
namespace {

constexpr std::size_t most_digits = 20;

}  // namespace

session::session(std::string base, duration lease, bool has_permits)
    : base_{std::move(base)}, lease_{lease}, has_permits_{has_permits} {
  name_.reserve(base_.size() + most_digits);
  begin();
}

void session::begin() noexcept {
  ++number_;
  char digits[most_digits];
  name_.assign(base_).append(digits, std::to_chars(digits, digits + most_digits, number_).ptr);
  calls_ = 0;
  is_registered_ = false;
}

void session::call_begins(std::int64_t awake, bool leaves) noexcept {
  ++calls_;
  number_of_call_ = number_;
  leaves_ = leaves;
  sent_at_ = awake;
}

void session::answered(std::int64_t awake, std::int64_t there) noexcept {
  is_registered_ = !leaves_;
  const duration took{awake - sent_at_};
  too_slow_ = has_permits_ && took > longest_round_trip(lease_) ? took : duration::zero();
  told_at_ = sent_at_;
  told_now_ = there;
  // A tenth of the lease is left for clocks that run at different speeds, and for the time that a cancellation takes.
  lease_until_ = sent_at_ + lease_.count() / 10 * 9;
}

std::int64_t session::latest_there(std::int64_t awake) const noexcept {
  const std::int64_t since = (awake - told_at_) / 1000;
  const std::int64_t drift = since / 1000;  // how far the clocks of Redis and this process may diverge during `since`
  const bool is_known = told_now_ != 0 && since >= 0 && drift <= lease_.count() / 1000 / 32;
  return is_known ? told_now_ + since + drift : 0;
}

bool session::follow(std::int64_t epoch) noexcept {
  const std::int64_t before = std::exchange(epoch_, epoch);
  return before != epoch && before != 0;
}

void session::see(std::uint64_t token) noexcept { last_token_ = std::max(last_token_, token); }

}  // namespace canigo::redis::detail
