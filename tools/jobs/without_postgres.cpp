#include "postgres.hpp"

#include <stdexcept>

std::unique_ptr<canigo::jobs::store> open_postgres(canigo::net::io_context&, const std::string&) {
  throw std::runtime_error{"this canigo-jobs was built without PostgreSQL"};
}

std::string version_of_postgres() { return {}; }
