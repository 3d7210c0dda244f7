#include "canigo/detail/admission/permit_waiter.hpp"

namespace canigo::detail {

std::optional<permit> try_permit(admission& home, const request& r) {
  const outcome o = home.try_enter(r);
  if (o == outcome::granted) return permit_waiter::granted(home, r);
  if (o > outcome::granted) home.check(r);
  return std::nullopt;
}

}  // namespace canigo::detail
