#include "canigo/detail/around/tuner.hpp"

#include <mutex>
#include <utility>

namespace canigo::detail {

namespace {

std::variant<knee_control, aimd_control> control_of(const limit_bounds& bounds, const std::variant<knee, aimd>& how) {
  if (const auto* with_target = std::get_if<aimd>(&how)) return aimd_control{*with_target, bounds};
  return knee_control{bounds, {}, 0};
}

}  // namespace

tuner::tuner(const limit_bounds& bounds, const std::variant<knee, aimd>& algorithm)
    : bounds_{bounds}, control_{control_of(bounds, algorithm)}, limit_{bounds.initial} {}

void tuner::align(duration to_wall) noexcept {
  const auto seed = static_cast<std::uint64_t>(to_wall.count());
  if (std::holds_alternative<knee_control>(control_)) control_ = knee_control{bounds_, to_wall, seed};
}

/// Passes a sample to the algorithm that controls the limit. Returns whether the limit has changed.
bool tuner::record(const limit_sample& s, time_point now) noexcept {
  const std::uint64_t next = std::visit([&](auto& c) { return c.record(s, now); }, control_);
  if (next == limit_.load(std::memory_order_relaxed)) return false;
  limit_.store(next, std::memory_order_relaxed);
  return true;
}

void tuner::end(admission& home, permit place, limit_sample s, std::optional<sample_outcome> how) noexcept {
  bool has_changed = false;
  {
    const std::lock_guard lock{mutex_};
    if (how) {
      s.outcome = *how;
      ++(*how == sample_outcome::ok        ? counts_.succeeded
         : *how == sample_outcome::dropped ? counts_.dropped
                                           : counts_.cancelled);
      has_changed = record(s, home.now());
    } else {
      ++counts_.unreported;
    }
  }
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
  // Two threads that have recorded samples may reach this line in either order. So each thread sets the limit that is
  // current now, and not the limit after its own sample.
  if (has_changed) home.change_supplies([this](supplies& all, time_point) { all.set_capacity(limit()); });
  place.release();
}

tuner::readings tuner::read() const noexcept {
  const std::lock_guard lock{mutex_};
  readings r = counts_;
  r.limit = limit();
  std::visit(
      [&](const auto& c) {
        r.baseline = c.baseline();
        r.latency = c.latency();
        r.last_decision = c.last_decision();
      },
      control_);
  return r;
}

duration tuner::latency() const noexcept {
  const std::lock_guard lock{mutex_};
  return std::visit([](const auto& c) { return c.latency(); }, control_);
}

}  // namespace canigo::detail
