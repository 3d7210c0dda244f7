#pragma once

#include "redis/greeting.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace redis_test {

/// A server on the loop of the test that greets, and sends only what a test tells it. Connections are counted from 1.
class puppet {
 public:
  explicit puppet(asio::io_context& io) : core_{std::make_shared<core>(io)} {
    asio::co_spawn(io, accept(core_), asio::detached);
  }
  ~puppet() {
    std::error_code ignored;
    core_->acceptor.close(ignored);
    for (const auto& l : core_->lines) l->socket.close(ignored);
  }
  puppet(const puppet&) = delete;
  puppet& operator=(const puppet&) = delete;

  std::string url() const { return "redis://127.0.0.1:" + std::to_string(core_->acceptor.local_endpoint().port()); }
  std::size_t connections() const { return core_->lines.size(); }
  /// Whether the client has not closed this connection yet.
  bool is_open(std::size_t n) const { return core_->lines.at(n - 1)->is_open; }
  /// Whether the client has sent this word on the connection, as the last one of a command.
  bool has_heard(std::size_t n, std::string_view word) const {
    return heard(n).find("\r\n" + std::string{word} + "\r\n") != std::string::npos;
  }
  const std::string& heard(std::size_t n) const { return core_->lines.at(n - 1)->heard; }

  /// Sets the greeting for later logins; empty: the server stays silent.
  void set_greeting(std::string g) { core_->greeting = std::move(g); }
  /// Sets whether it closes a connection after the greeting.
  void set_rude(bool is_rude) { core_->is_rude = is_rude; }
  void say(std::size_t n, std::string_view text) {
    std::error_code ignored;
    asio::write(core_->lines.at(n - 1)->socket, asio::buffer(text.data(), text.size()), ignored);
  }
  void hang_up(std::size_t n) {
    std::error_code ignored;
    core_->lines.at(n - 1)->socket.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  }

 private:
  struct line {
    explicit line(asio::ip::tcp::socket s) : socket{std::move(s)} {}
    asio::ip::tcp::socket socket;
    std::string heard;
    bool is_open = true;
    bool has_greeted = false;
  };

  struct core {
    explicit core(asio::io_context& c) : io{c}, acceptor{c, {asio::ip::make_address("127.0.0.1"), 0}} {}
    asio::io_context& io;
    asio::ip::tcp::acceptor acceptor;
    std::vector<std::shared_ptr<line>> lines;
    std::string greeting = usual_greeting;
    bool is_rude = false;
  };

  static asio::awaitable<void> accept(std::shared_ptr<core> all) {
    try {
      for (;;) {
        auto accepted = all->acceptor.async_accept(asio::use_awaitable);
        auto l = std::make_shared<line>(co_await std::move(accepted));
        l->socket.set_option(asio::ip::tcp::no_delay{true});
        all->lines.push_back(l);
        asio::co_spawn(all->io, listen(all, l), asio::detached);
      }
    } catch (const std::system_error&) {
      // The connection was closed.
    }
  }

  static asio::awaitable<void> listen(std::shared_ptr<core> all, std::shared_ptr<line> l) {
    try {
      for (std::array<char, 4096> part;;) {
        const std::size_t n = co_await l->socket.async_read_some(asio::buffer(part), asio::use_awaitable);
        l->heard.append(part.data(), n);
        if (l->has_greeted || !l->heard.ends_with("server\r\n")) continue;
        l->has_greeted = true;
        co_await asio::async_write(l->socket, asio::buffer(all->greeting), asio::use_awaitable);
        if (all->is_rude) l->socket.shutdown(asio::ip::tcp::socket::shutdown_both);
      }
    } catch (const std::system_error&) {
      // The client has closed the connection.
    }
    l->is_open = false;
  }

  const std::shared_ptr<core> core_;
};

}  // namespace redis_test
