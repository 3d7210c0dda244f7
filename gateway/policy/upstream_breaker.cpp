#include "gateway/policy/upstream_breaker.hpp"

#include <algorithm>

namespace canigo::gateway {
namespace {

circuit_breaker_options circuit_of(const breaker_options& o) {
  circuit_breaker_options c;
  c.failures = o.failures;
  c.least_calls = o.of;
  c.window = o.within;
  c.open_for = o.open;
  c.most_open_for = o.most;
  c.probes = breaker_probes;
  return c;
}

std::uint64_t sum(std::uint64_t a, std::uint64_t b) noexcept { return a > unlimited - b ? unlimited : a + b; }

}  // namespace

upstream_breaker::upstream_breaker(const breaker_options& o, std::uint64_t ahead, time_point now)
    : circuit_{circuit_of(o), now}, options_{o}, ahead_{ahead} {}

/// Whether the call is a probe of the present half-open state, and has not reported its result yet.
bool upstream_breaker::is_probing(const pass& p) const noexcept {
  return p.probe_of != 0 && !p.has_reported && p.generation == generation_ &&
         p.probe_of == circuit_.last_change().number;
}

std::optional<upstream_breaker::pass> upstream_breaker::enter(time_point now) noexcept {
  const std::uint64_t before = circuit_.last_change().number;
  const auto e = circuit_.try_enter(now);
  if (!e) return std::nullopt;
  ++inside_;
  if (circuit_.last_change().number != before) probing_ = 0;
  if (circuit_.state(now) != circuit_state::half_open) return pass{*e, generation_, 0, false};
  ++probing_;
  return pass{*e, generation_, circuit_.last_change().number, false};
}

bool upstream_breaker::report(pass& p, bool failed, time_point now) noexcept {
  if (p.has_reported) return false;
  if (is_probing(p)) --probing_;
  p.has_reported = true;
  if (p.generation != generation_) return false;
  const std::uint64_t before = circuit_.last_change().number;
  circuit_.report(p.epoch, failed, false, now);
  return circuit_.last_change().number != before && circuit_.state(now) == circuit_state::open;
}

bool upstream_breaker::report_broken_off(const pass& p, time_point now) noexcept {
  if (!p.has_reported || p.generation != generation_) return false;
  const std::uint64_t before = circuit_.last_change().number;
  circuit_.report_late_failure(p.epoch, now);
  return circuit_.last_change().number != before;
}

void upstream_breaker::leave(const pass& p) noexcept {
  --inside_;
  if (is_probing(p)) --probing_;
  if (!p.has_reported && p.generation == generation_) circuit_.leave(p.epoch);
}

void upstream_breaker::configure(const breaker_options& o, time_point now) {
  if (o == options_) return;
  circuit_ = circuit{circuit_of(o), now};
  options_ = o;
  ++generation_;
  probing_ = 0;
}

std::uint64_t upstream_breaker::cap(time_point now) const noexcept {
  std::uint64_t free = ahead_;
  if (circuit_.last_change().to == circuit_state::half_open) {
    const std::uint64_t taken = circuit_.counted(now).calls + probing_;
    free = std::min(free, breaker_probes - std::min<std::uint64_t>(taken, breaker_probes));
  } else if (circuit_.last_change().to == circuit_state::open) {
    free = std::min<std::uint64_t>(free, breaker_probes);
  }
  return sum(inside_, free);
}

time_point upstream_breaker::open_until(time_point now) const noexcept {
  const duration left = circuit_.open_for(now);
  return left > duration::zero() ? saturating_add(now, left) : time_point::min();
}

}  // namespace canigo::gateway
