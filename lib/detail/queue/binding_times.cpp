#include "canigo/detail/queue/binding_times.hpp"

namespace canigo::detail {

void binding_times::add_to(binding_stats& sums, time_point now) const noexcept {
  const duration passed = time_between(since_, now);  // if `now` is slightly before `since_`, the time passed is 0
  switch (binds_) {
    case wait_reason::cause::none:
      break;
    case wait_reason::cause::paused:
      sums.paused += passed;
      break;
    case wait_reason::cause::rate:
      sums.rates[index_] += passed;
      break;
    case wait_reason::cause::concurrency:
      sums.concurrency += passed;
      break;
    case wait_reason::cause::share:
      sums.share += passed;
      break;
    case wait_reason::cause::flow:
      sums.flow += passed;
      break;
    case wait_reason::cause::alternatives:
      sums.alternatives += passed;
      break;
    case wait_reason::cause::sublimit:
      sums.sublimit += passed;
      break;
  }
}

}  // namespace canigo::detail
