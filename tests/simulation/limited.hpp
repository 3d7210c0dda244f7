#pragma once

#include "canigo/net.hpp"
#include "canigo/request.hpp"

#include <asio/awaitable.hpp>

namespace canigo {
class limiter;
class scheduler;
class semaphore;
}  // namespace canigo

namespace simulated {

// Calls with_limit(). It is compiled separately, because the defects that are seeded in it are in a header.
canigo::net::awaitable<void> run_inside(canigo::net::awaitable<void> op, canigo::scheduler& s, canigo::request r);
canigo::net::awaitable<void> run_inside(canigo::net::awaitable<void> op, canigo::semaphore& s, canigo::request r);
canigo::net::awaitable<void> run_inside(canigo::net::awaitable<void> op, canigo::limiter& l, canigo::request r);

}  // namespace simulated
