#include "canigo/algorithms/latency_window.hpp"

#include "canigo/error.hpp"

#include <mutex>

namespace canigo {

namespace {

const latency_window::options& checked(const latency_window::options& o) {
  if (o.length < duration{2}) detail::throw_invalid("latency_window.length", o.length, "2ns or more");
  if (o.least_samples < 1) detail::throw_invalid("latency_window.least_samples", o.least_samples, "1 or more");
  return o;
}

}  // namespace

latency_window::latency_window(const options& o) : half_{checked(o).length / 2}, least_samples_{o.least_samples} {}

/// Whether a call that ends at `now` is recorded in `younger_`, which covers half of the window.
bool latency_window::is_current(time_point now) const noexcept { return now < saturating_add(since_, half_); }

/// Whether the calls in `younger_` are still in the window at `now`: less than the window's length has passed since
/// `younger_` began.
bool latency_window::is_previous(time_point now) const noexcept {
  return now < saturating_add(saturating_add(since_, half_), half_);
}

void latency_window::record(time_point now, duration took) noexcept {
  const std::lock_guard lock{mutex_};
  if (!is_current(now)) {
    older_ = is_previous(now) ? younger_ : wait_histogram{};
    since_ = is_previous(now) ? since_ + half_ : now;
    younger_ = {};
  }
  younger_.record(took);
}

std::optional<duration> latency_window::quantile(time_point now, double p) const noexcept {
  const std::lock_guard lock{mutex_};
  if (!is_previous(now)) return std::nullopt;
  wait_histogram all = younger_;
  if (is_current(now)) all.merge(older_);
  if (all.count() < least_samples_) return std::nullopt;
  return all.quantile(p);
}

std::uint64_t latency_window::count(time_point now) const noexcept {
  const std::lock_guard lock{mutex_};
  if (!is_previous(now)) return 0;
  return younger_.count() + (is_current(now) ? older_.count() : 0);
}

}  // namespace canigo
