#include "canigo/detail/pool/pool_crew.hpp"

#include <utility>

namespace canigo::detail {

void pool_crew::add(crew_member& m) noexcept {
  (last_of_all_ != nullptr ? last_of_all_->next_of_all_ : first_of_all_) = &m;
  last_of_all_ = &m;
}

crew_member* pool_crew::to_stay() const noexcept {
  if (!is_short()) return nullptr;
  crew_member* found = nullptr;
  for (crew_member* m = first_of_all_; m != nullptr; m = m->next_of_all_) {
    if (!m->is(state::leaving) || m->is_retired_) continue;
    if (m->is_equipped_) return m;
    if (found == nullptr) found = m;
  }
  return found;
}

crew_member* pool_crew::to_join(const crew_member* after) const noexcept {
  if (!is_short()) return nullptr;
  crew_member* m = after != nullptr ? after->next_of_all_ : first_of_all_;
  while (m != nullptr && !m->is(state::gone)) m = m->next_of_all_;
  return m;
}

void pool_crew::equip(crew_member& m) noexcept {
  if (!std::exchange(m.is_equipped_, true)) ++equipped_;
}

void pool_crew::unequip(crew_member& m) noexcept {
  if (std::exchange(m.is_equipped_, false)) --equipped_;
}

void pool_crew::join(crew_member& m) noexcept {
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
  ++leaving_;
}

void pool_crew::retire(crew_member& m) noexcept {
  if (!m.is(state::leaving)) leave(m);
  m.is_retired_ = true;
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
  unequip(m);
  m.state_ = state::gone;
  --present_;
}

}  // namespace canigo::detail
