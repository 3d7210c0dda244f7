#include "canigo/detail/coro/repeatable.hpp"

#include "canigo/detail/base/random.hpp"
#include "canigo/detail/context/context_service.hpp"
#include "canigo/error.hpp"
#include "canigo/time_source.hpp"

#include <system_error>

namespace canigo::detail {

void check_deadline(const net::any_io_executor& executor, time_point deadline) {
  if (deadline < time_source::of(executor).now()) throw std::system_error{errc::deadline_unreachable};
}

std::uint64_t random_of(const net::any_io_executor& executor) {
  // The seed contains a serial number, so that calls that fail at the same instant get different delays.
  std::uint64_t state = static_cast<std::uint64_t>(time_source::of(executor).now().time_since_epoch().count());
  next_random(state);
  state ^= context_service::of(executor).next_number() * 0xd1342543de82ef95;
  return next_random(state);
}

}  // namespace canigo::detail
