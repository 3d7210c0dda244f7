#include "canigo/hedge_options.hpp"

#include "canigo/error.hpp"

namespace canigo {

void detail::check(const hedge_options& o) {
  constexpr std::uint32_t most_copies = 16;
  if (o.after.is_quantile()) {
    const double share = o.after.share();
    if (!(share >= 0 && share <= 1)) throw_invalid("hedge_options.after", share, "a quantile from 0 to 1");
    if (o.window == nullptr) throw_invalid("hedge_options.window", "null", "a latency_window, for a quantile");
  } else if (o.after.after() < duration::zero()) {
    throw_invalid("hedge_options.after", o.after.after(), "0 or more");
  }
  if (o.copies < 1 || o.copies > most_copies) throw_invalid("hedge_options.copies", o.copies, "1 to 16");
  if (o.budget == nullptr) throw_invalid("hedge_options.budget", "null", "a retry_budget, such as hedge_budget makes");
}

}  // namespace canigo
