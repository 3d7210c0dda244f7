#pragma once

#include <canigo/jobs/store.hpp>
#include <canigo/net.hpp>

#include "options.hpp"

#include <asio/io_context.hpp>

#include <memory>
#include <string>

/// Opens the store at a place. Throws std::runtime_error if there is none.
std::unique_ptr<canigo::jobs::store> open(canigo::net::io_context& io, const std::string& place);

/// Executes the command in the options. Returns false if a job or a queue is unknown or was not changed as wanted.
canigo::net::awaitable<bool> carry_out(canigo::jobs::store& store, const options& o);

canigo::net::awaitable<bool> move(canigo::jobs::store& store, const options& o);
