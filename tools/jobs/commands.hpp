#pragma once

#include <canigo/jobs/store.hpp>
#include <canigo/net.hpp>

#include "options.hpp"

#include <asio/io_context.hpp>

#include <memory>
#include <string>

/// The store at a place. Throws std::runtime_error if there is none.
std::unique_ptr<canigo::jobs::store> open(canigo::net::io_context& io, const std::string& place);

/// Does what the options say. Returns whether all jobs and queues were found, and became what was wanted.
canigo::net::awaitable<bool> carry_out(canigo::jobs::store& store, const options& o);

canigo::net::awaitable<bool> move(canigo::jobs::store& store, const options& o);
