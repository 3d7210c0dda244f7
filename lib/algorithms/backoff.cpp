#include "canigo/algorithms/backoff.hpp"

#include "canigo/error.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <string>

namespace canigo {

duration backoff::ceiling(std::uint32_t failures) const noexcept {
  const duration least = std::clamp(min, duration::zero(), std::max(cap, duration::zero()));
  const duration most = std::max(cap, least);
  duration d = std::clamp(first, least, most);
  if (factor <= 1 || d == duration::zero()) return d;
  // At most 63 rounds are needed, because each round at least doubles the delay.
  for (std::uint32_t i = 1; i < failures && d < most; ++i) {
    d = d > most / factor ? most : std::min(d * factor, most);
  }
  return d;
}

duration backoff::delay(std::uint32_t failures, std::uint64_t random) const noexcept {
  const duration longest = ceiling(failures);
  if (jitter == canigo::jitter::none) return longest;
  const duration least = std::clamp(min, duration::zero(), longest);
  const duration shortest = jitter == canigo::jitter::equal ? std::max(least, longest / 2) : least;
  const auto width = static_cast<std::uint64_t>((longest - shortest).count());
  const auto offset = static_cast<std::uint64_t>((detail::uint128{width} * random + random) >> 64);
  return shortest + duration{static_cast<duration::rep>(offset)};
}

void detail::check(const backoff& b, std::string_view name) {
  const auto field = [&](const char* f) { return std::string{name} + "." + f; };
  if (b.first < duration::zero()) throw_invalid(field("first"), b.first, "0 or more");
  if (b.factor < 1) throw_invalid(field("factor"), b.factor, "1 or more");
  if (b.cap < duration::zero()) throw_invalid(field("cap"), b.cap, "0 or more");
  if (b.min < duration::zero() || b.min > b.cap) throw_invalid(field("min"), b.min, "0 to cap, " + to_string(b.cap));
  if (b.jitter < jitter::none || b.jitter > jitter::equal) {
    throw_invalid(field("jitter"), static_cast<int>(b.jitter), "none, full, equal");
  }
}

}  // namespace canigo
