#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

namespace canigo::detail {

class pool_core;

/// A deadline of a pool or of one of its workers; holds a reference to the pool while armed.
struct pool_alarm : deadline {
  using function_type = void (*)(pool_core&, pool_alarm&) noexcept;

  /// `f` is called under the pool's lock, and not if its context goes first.
  pool_alarm(pool_core& c, function_type f) noexcept;

  pool_core* core;
  function_type function;
  time_point when{};
  bool armed = false;
};

}  // namespace canigo::detail
