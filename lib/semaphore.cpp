#include "canigo/semaphore.hpp"

#include "canigo/detail/admission/admission.hpp"
#include "canigo/error.hpp"

#include <utility>

namespace canigo {

namespace {

constexpr std::uint64_t most_permits = std::uint64_t{1} << 62;

std::uint64_t checked_permits(std::uint64_t permits, std::string_view field) {
  if (permits < 1 || permits > most_permits) detail::throw_invalid(field, permits, "1 to 2^62");
  return permits;
}

detail::admission* open(const net::any_io_executor& executor, const semaphore_options& o) {
  detail::supplies supplies{
      {}, checked_permits(o.permits, "semaphore_options.permits"), detail::supplies::occupancy::tokens};
  return detail::admission::open(executor, std::move(supplies),
                                 detail::checked("semaphore_options", {.priorities = o.priorities,
                                                                       .queue_limit = o.queue_limit,
                                                                       .on_overflow = o.on_overflow,
                                                                       .ageing = o.ageing,
                                                                       .shedding = o.shedding,
                                                                       .mode = o.mode,
                                                                       .name = detail::make_name(o.name)}));
}

}  // namespace

semaphore::semaphore(const net::any_io_executor& executor, const semaphore_options& options)
    : limit_handle{open(executor, options)} {}

void semaphore::resize(std::uint64_t permits) {
  checked_permits(permits, "semaphore.resize: permits");
  admission_->change_supplies([=](detail::supplies& s, time_point) { s.set_capacity(permits); });
}

semaphore_stats semaphore::stats() const {
  semaphore_stats s;
  admission_->stats(s, [&](const detail::supplies& supplies, time_point) {
    s.held = supplies.occupied();
    s.capacity = supplies.capacity();
    s.shadow = admission_->read_shadow();
  });
  return s;
}

}  // namespace canigo
