#include "canigo/jobs/postgres_store.hpp"

#include "worker.hpp"

#include <chrono>

std::unique_ptr<canigo::jobs::store> open_store(canigo::net::io_context& io, const std::string& place,
                                                const canigo::jobs::store_policy& policy) {
  canigo::jobs::postgres_store_options o;
  o.policy = policy;
  // The server is restarted again and again, on a machine that may be busy.
  o.reconnect_limit = o.lock_limit = std::chrono::minutes{2};
  return std::make_unique<canigo::jobs::postgres_store>(io, place, o);
}
