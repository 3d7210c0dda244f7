#pragma once

#include <canigo/jobs/store.hpp>
#include <canigo/net.hpp>

#include <asio/io_context.hpp>

#include <memory>
#include <string>

/// A store in PostgreSQL. Throws std::runtime_error if canigo was built without it.
std::unique_ptr<canigo::jobs::store> open_postgres(canigo::net::io_context& io, const std::string& url);

/// That of libpq; empty: canigo was built without it.
std::string version_of_postgres();
