#include "canigo/detail/pool/pool_crew.hpp"

#include <utility>

namespace canigo::detail {

void pool_crew::add(crew_member& m) noexcept { gone_.add(m, false); }

void pool_crew::equip(crew_member& m) noexcept {
  if (std::exchange(m.is_equipped_, true)) return;
  ++equipped_;
  if (!may_stay(m)) return;
  leaving_list_.remove(m);
  leaving_list_.add(m, true);
}

void pool_crew::unequip(crew_member& m) noexcept {
  if (!std::exchange(m.is_equipped_, false)) return;
  --equipped_;
  if (!may_stay(m)) return;
  leaving_list_.remove(m);
  leaving_list_.add(m, false);
}

void pool_crew::join(crew_member& m) noexcept {
  gone_.remove(m);
  m.state_ = state::awake;
  m.is_retired_ = false;
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
  leaving_list_.add(m, m.is_equipped_);
  ++leaving_;
}

void pool_crew::retire(crew_member& m) noexcept {
  if (!m.is(state::leaving)) leave(m);
  if (!std::exchange(m.is_retired_, true)) leaving_list_.remove(m);
}

void pool_crew::stay(crew_member& m) noexcept {
  leaving_list_.remove(m);
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
      if (may_stay(m)) leaving_list_.remove(m);
      --leaving_;
      break;
    default:
      break;
  }
  m.state_ = state::gone;
  unequip(m);
  gone_.add(m, false);
  --present_;
}

}  // namespace canigo::detail
