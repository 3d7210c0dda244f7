#include "canigo/detail/admission/permit_waiter.hpp"

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/flow_places.hpp"

namespace canigo::detail {

permit_waiter::results permit_waiter::take_results() noexcept {
  let_go_of_engine();
  if (ended_with() != outcome::granted) return {to_error_code(ended_with()), permit{}};
  return {std::error_code{}, permit{*home_, flow_places::join(home_->places_for(tokens), flow()), take_tokens()}};
}

}  // namespace canigo::detail
