#pragma once

#include "canigo/cancel.hpp"
#include "canigo/detail/queue/units.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace canigo::redis::detail {

class ledger;

/// The data of a granted permit, in the process that got the permit. The data is written under the lock of the permit's
/// limit.
struct holding {
  enum class state { held, released, lost };

  std::shared_ptr<ledger> home;
  std::uint64_t id = 0;
  std::uint64_t weight = 0;
  std::uint64_t token = 0;
  std::size_t alternative = 0;                // if the limit has alternatives: the alternative that granted the permit
  canigo::detail::amounts_by_unit amounts{};  // the amount of each unit, as granted or settled
  bool settles = false;                       // whether Redis has charged these amounts, so that settle() has an effect
  std::atomic<state> now = state::held;       // the state of the grant; it is also read without the lock
  cancel_source ended;
  std::shared_ptr<holding> next_to_tell;
};

}  // namespace canigo::redis::detail
