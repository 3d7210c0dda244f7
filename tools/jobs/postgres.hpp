#pragma once

#include <canigo/jobs/store.hpp>
#include <canigo/net.hpp>

#include <asio/io_context.hpp>

#include <memory>
#include <string>

/// Opens a store in the PostgreSQL database at `url`. Throws std::runtime_error if canigo was built without PostgreSQL.
std::unique_ptr<canigo::jobs::store> open_postgres(canigo::net::io_context& io, const std::string& url);

/// Returns the version of libpq; empty if canigo was built without PostgreSQL.
std::string version_of_postgres();
