#include "canigo/detail/admission/awaited.hpp"

namespace canigo::detail {

request as_request(int priority) noexcept { return {.priority = priority}; }

void throw_refusal(const admission& home, const request& r, outcome o) {
  if (o != to_outcome(errc::stopped)) home.check(r);  // names what is wrong with the request, if something is
  throw std::system_error{to_error_code(o)};
}

}  // namespace canigo::detail
