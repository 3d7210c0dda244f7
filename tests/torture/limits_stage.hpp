#pragma once

#include "canigo/pool.hpp"
#include "canigo/rate.hpp"
#include "canigo/scheduler.hpp"

#include "stage.hpp"

namespace torture {

/// What most scenarios of schedulers have.
inline const canigo::scheduler_options two_classes{.rate = canigo::rate::per_second(100), .burst = 4, .priorities = 2};

/// A torment may stop the limit.
template <class Limit>
void stops(stage& t, Limit& l) {
  t.can_stop([&l](canigo::stop_mode) { l.stop(); });
}

}  // namespace torture
