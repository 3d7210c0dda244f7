#pragma once

#include "canigo/pool.hpp"
#include "canigo/request.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <string_view>

namespace canigo {

class pool_observer;

namespace detail {

/// The options of a task that is submitted without options. It is a compile-time constant, so that checks of it cost
/// nothing at run time.
inline constexpr task_options no_options{};

/// Whether a task with these options needs no task_extras, the fields for options other than the priority.
constexpr bool is_plain(const task_options& o) noexcept {
  return !o.timeout && o.delay == duration::zero() && o.group == 0 && o.name.empty() && o.retry.attempts <= 1 &&
         o.deadline == time_point::max() && o.flow == nullptr;
}

/// The options that a pool of any type needs.
struct pool_core_options {
  std::size_t concurrency = 1;
  int priorities = 1;
  std::size_t queue_limit = 10'000;
  overflow on_overflow = overflow::reject_new;
  duration timeout = duration::max();
  retry_policy retry = {};
  restart_policy restart = {};
  pool_observer* observer = nullptr;
  std::string_view type;  ///< the type of the pool, for error messages
};

/// Copies the options that all pools have.
template <class Options>
pool_core_options to_core_options(const Options& o, std::string_view type) {
  return {.concurrency = o.concurrency,
          .priorities = o.priorities,
          .queue_limit = o.queue_limit,
          .on_overflow = o.on_overflow,
          .timeout = o.timeout,
          .retry = o.retry,
          .restart = o.restart,
          .observer = o.observer,
          .type = type};
}

// The following functions throw errc::invalid_argument if a value is out of range. The error text names the field, the
// value and the range.
const pool_core_options& checked(const pool_core_options& o);
void check_concurrency(std::size_t concurrency, std::string_view type, std::string_view field);
void check_stop(stop_mode mode);
/// Throws errc::invalid_priority if the priority is out of range, and errc::invalid_argument if another option is out
/// of range.
void check_task(const task_options& o, int priorities);

}  // namespace detail
}  // namespace canigo
