#include "canigo/detail/pool/pool_crew.hpp"

namespace canigo::detail {

void pool_crew::join(crew_member& m) noexcept {
  m.state_ = state::awake;
  ++present_;
}

void pool_crew::rest(crew_member& m) noexcept {
  m.state_ = state::resting;
  ++repairing_;
}

void pool_crew::repair(crew_member& m) noexcept {
  m.state_ = state::repairing;
  ++repairing_;
}

void pool_crew::recover(crew_member& m) noexcept {
  m.state_ = state::awake;
  --repairing_;
}

void pool_crew::leave(crew_member& m) noexcept {
  if (m.is(state::resting)) recover(m);
  m.state_ = state::leaving;
  ++leaving_;
}

void pool_crew::stay(crew_member& m) noexcept {
  m.state_ = state::awake;
  --leaving_;
}

void pool_crew::lose(crew_member& m) noexcept {
  switch (m.state_) {
    case state::idle:
      wake(m);
      break;
    case state::running:
      end(m, true);
      break;
    case state::resting:
    case state::repairing:
      recover(m);
      break;
    case state::leaving:
      --leaving_;
      break;
    default:
      break;
  }
  m.state_ = state::gone;
  --present_;
}

}  // namespace canigo::detail
