#pragma once

#include "canigo/pool.hpp"
#include "canigo/rate.hpp"
#include "canigo/scheduler.hpp"

#include "stage.hpp"

namespace torture {

/// The options of most scenarios of schedulers.
inline const canigo::scheduler_options two_classes{.rate = canigo::rate::per_second(100), .burst = 4, .priorities = 2};

/// Lets a torment stop the limit.
template <class Limit>
void stops(stage& t, Limit& l) {
  t.can_stop([&l](canigo::stop_mode) { l.stop(); });
}

}  // namespace torture
