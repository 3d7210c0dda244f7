#include "canigo/detail/queue/shared_places.hpp"
#include "canigo/error.hpp"
#include "canigo/limiter.hpp"

#include <string_view>

namespace canigo {

namespace {

constexpr std::uint64_t most_shared = std::uint64_t{1} << 62;

std::uint64_t checked_cap(std::uint64_t permits, std::string_view field) {
  if (permits < 1 || permits > most_shared) detail::throw_invalid(field, permits, "1 to 2^62");
  return permits;
}

}  // namespace

shared_cap::shared_cap(const shared_cap_options& options)
    : places_{std::make_shared<detail::shared_places>(checked_cap(options.permits, "shared_cap_options.permits"))} {}

void shared_cap::resize(std::uint64_t permits) {
  checked_cap(permits, "shared_cap.resize: permits");
  places_->resize(permits);
}

std::uint64_t shared_cap::held() const noexcept { return places_->occupied(); }

std::uint64_t shared_cap::permits() const noexcept { return places_->capacity(); }

}  // namespace canigo
