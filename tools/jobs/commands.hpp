#pragma once

#include <canigo/jobs/store.hpp>
#include <canigo/net.hpp>

#include "options.hpp"

#include <asio/io_context.hpp>

#include <memory>
#include <string>

/// Opens the store at `place`: a file or a URL. Throws std::runtime_error if there is no such store.
std::unique_ptr<canigo::jobs::store> open(canigo::net::io_context& io, const std::string& place);

/// Executes the command in the options. Returns false if a job or a queue is unknown, or if the change that the command
/// asks for was not made.
canigo::net::awaitable<bool> carry_out(canigo::jobs::store& store, const options& o);

canigo::net::awaitable<bool> move(canigo::jobs::store& store, const options& o);
