#include "canigo/adaptive_limit.hpp"

#include "canigo/detail/admission/awaited.hpp"
#include "canigo/detail/around/tuner.hpp"
#include "canigo/error.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace canigo {

namespace {

constexpr std::uint64_t most_limit = 1'000'000;

std::string from_to(const char* low_name, std::uint64_t low, const char* high_name, std::uint64_t high) {
  return fmt::format("{}, which is {}, to {}, which is {}", low_name, low, high_name, high);
}

limit_bounds checked_bounds(const adaptive_limit_options& o) {
  if (o.least < 1) detail::throw_invalid("adaptive_limit_options.least", o.least, "1 or more");
  if (o.most < o.least || o.most > most_limit) {
    detail::throw_invalid("adaptive_limit_options.most", o.most,
                          fmt::format("least, which is {}, to {}", o.least, most_limit));
  }
  if (o.initial < o.least || o.initial > o.most) {
    detail::throw_invalid("adaptive_limit_options.initial", o.initial, from_to("least", o.least, "most", o.most));
  }
  if (const auto* a = std::get_if<aimd>(&o.algorithm); a != nullptr && a->target <= duration::zero()) {
    detail::throw_invalid("aimd.target", a->target, "more than 0");
  }
  return {o.initial, o.least, o.most};
}

detail::admission* open_adaptive(const net::any_io_executor& executor, const adaptive_limit_options& o) {
  const limit_bounds bounds = checked_bounds(o);
  const detail::admission_options options =
      detail::checked("adaptive_limit_options", {.priorities = o.priorities,
                                                 .queue_limit = o.queue_limit,
                                                 .on_overflow = o.on_overflow,
                                                 .ageing = o.ageing,
                                                 .shedding = o.shedding,
                                                 .name = detail::make_name(o.name)});
  detail::admission* a =
      detail::admission::open(executor, detail::supplies{{}, o.initial, detail::supplies::occupancy::one}, options,
                              std::make_unique<detail::tuner>(bounds, o.algorithm));
  // Aligns the limit's probes to the wall clock, so that all clients of one callee probe at the same time. Virtual time
  // has no alignment, because there the result must not depend on when the test runs.
  if (!a->is_in_virtual_time()) {
    const auto wall = std::chrono::duration_cast<duration>(std::chrono::system_clock::now().time_since_epoch());
    detail::tuner_of(*a).align(wall - a->now().time_since_epoch());
  }
  return a;
}

}  // namespace

adaptive_limit::adaptive_limit(const net::any_io_executor& executor, const adaptive_limit_options& options)
    : limit_handle{open_adaptive(executor, options)} {}

net::awaitable<adaptive_permit> adaptive_limit::acquire(int priority) {
  return detail::wait_for<detail::adaptive_waiter>(admission_, priority);
}

std::uint64_t adaptive_limit::limit() const noexcept { return detail::tuner_of(*admission_).limit(); }

duration adaptive_limit::latency() const noexcept { return detail::tuner_of(*admission_).latency(); }

adaptive_limit_stats adaptive_limit::stats() const {
  adaptive_limit_stats s;
  admission_->stats(s, [&](const detail::supplies& supplies, time_point) { s.held = supplies.occupied(); });
  const auto r = detail::tuner_of(*admission_).read();
  s.limit = r.limit;
  s.baseline = r.baseline;
  s.latency = r.latency;
  s.last_decision = r.last_decision;
  s.succeeded = r.succeeded;
  s.dropped = r.dropped;
  s.given_up = r.cancelled;
  s.unreported = r.unreported;
  return s;
}

}  // namespace canigo
