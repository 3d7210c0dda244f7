#include <canigo/jobs/postgres_store.hpp>

#include "postgres.hpp"

#include <libpq-fe.h>

std::unique_ptr<canigo::jobs::store> open_postgres(canigo::net::io_context& io, const std::string& url) {
  return std::make_unique<canigo::jobs::postgres_store>(io, url);
}

std::string version_of_postgres() {
  const int version = ::PQlibVersion();
  return std::to_string(version / 10'000) + '.' + std::to_string(version % 10'000);
}
