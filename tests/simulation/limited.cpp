#include "limited.hpp"

#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/with_limit.hpp"

#include <utility>

namespace simulated {

namespace net = canigo::net;

net::awaitable<void> run_inside(net::awaitable<void> op, canigo::scheduler& s, canigo::request r) {
  return canigo::with_limit(std::move(op), s, r);
}

net::awaitable<void> run_inside(net::awaitable<void> op, canigo::semaphore& s, canigo::request r) {
  return canigo::with_limit(std::move(op), s, r);
}

net::awaitable<void> run_inside(net::awaitable<void> op, canigo::limiter& l, canigo::request r) {
  return canigo::with_limit(std::move(op), l, r);
}

}  // namespace simulated
