#include <canigo/jobs/postgres_store.hpp>

#include "postgres.hpp"

std::unique_ptr<canigo::jobs::store> open_postgres(canigo::net::io_context& io, const std::string& url) {
  return std::make_unique<canigo::jobs::postgres_store>(io, url);
}
