#pragma once

// Servers that send what a test wants instead of what Redis would send.

#include "canigo/redis/reply.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "redis/greeting.hpp"
#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/read_until.hpp>
#include <asio/use_awaitable.hpp>

#include <string>
#include <system_error>
#include <utility>

namespace redis_test {

using http_test::peer;
using http_test::scripted_server;

/// Waits for the next command whose last argument is `last`.
inline asio::awaitable<void> command_with(peer& p, std::string last) {
  std::string buffer;
  last += "\r\n";
  co_await asio::async_read_until(p.socket, asio::dynamic_buffer(buffer), last, asio::use_awaitable);
}

/// Answers a client's login commands.
inline asio::awaitable<void> greet(peer& p) {
  co_await command_with(p, "server");
  co_await p.send(usual_greeting);
}

inline std::string url_of(const scripted_server& s) { return "redis://127.0.0.1:" + std::to_string(s.port()); }

/// Returns a server that sends `first` on its first connection after the login, and `then` on later ones.
inline scripted_server::script says(std::string first, std::string then) {
  return [first = std::move(first), then = std::move(then)](peer& p) -> asio::awaitable<void> {
    co_await greet(p);
    co_await command_with(p, "go");
    co_await p.send(p.number == 1 ? first : then);
    co_await p.linger();
  };
}

/// Returns a server that sends the same text on every connection.
inline scripted_server::script says(const std::string& text) { return says(text, text); }

inline std::string what_of(asio::io_context& io, asio::awaitable<canigo::redis::reply> work) {
  try {
    http_test::run_to_end(io, std::move(work));
  } catch (const std::system_error& e) {
    return said_by(e);
  }
  return {};
}

}  // namespace redis_test
