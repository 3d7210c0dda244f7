#include "canigo/jobs/postgres_store.hpp"

#include "worker.hpp"

std::unique_ptr<canigo::jobs::store> open_store(canigo::net::io_context& io, const std::string& place,
                                                const canigo::jobs::store_policy& policy) {
  canigo::jobs::postgres_store_options o;
  o.policy = policy;
  return std::make_unique<canigo::jobs::postgres_store>(io, place, o);
}
