#pragma once

#include "canigo/cancel.hpp"
#include "canigo/detail/queue/units.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace canigo::redis::detail {

class ledger;

/// The grant behind a permit, in the process that has it. Written with the ledger's lock held.
struct holding {
  enum class state { held, released, lost };

  std::shared_ptr<ledger> home;
  std::uint64_t id = 0;
  std::uint64_t weight = 0;
  std::uint64_t token = 0;
  canigo::detail::amounts_by_unit amounts{};  // the amount of each unit, as granted or settled
  bool settles = false;                       // Redis has charged these amounts
  std::atomic<state> now = state::held;       // read without the lock
  cancel_source ended;
  std::shared_ptr<holding> next_to_tell;
};

}  // namespace canigo::redis::detail
