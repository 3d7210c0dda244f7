#pragma once

#include "canigo/jobs/store.hpp"
#include "canigo/net.hpp"

#include <asio/io_context.hpp>

#include <memory>
#include <string>

/// Opens the store for a worker process.
std::unique_ptr<canigo::jobs::store> open_store(canigo::net::io_context& io, const std::string& place,
                                                const canigo::jobs::store_policy& policy);
