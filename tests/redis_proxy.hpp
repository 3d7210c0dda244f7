#pragma once

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace redis_test {

/// Stands between clients and Redis, on the loop of the test.
class proxy {
 public:
  enum class way { to_redis, to_client };
  struct cut {
    way direction;
    std::size_t after;  // so many bytes, on all connections together, have passed
  };

  proxy(asio::io_context& io, std::string path, std::string target)
      : io_{io}, path_{std::move(path)}, target_{std::move(target)}, acceptor_{io, endpoint{path_}} {
    asio::co_spawn(io_, accept(), asio::detached);
  }
  proxy(const proxy&) = delete;
  proxy& operator=(const proxy&) = delete;

  std::string url() const { return "unix:" + path_; }
  std::size_t passed(way w) const { return passed_[static_cast<std::size_t>(w)]; }
  std::size_t connections() const { return connections_; }
  /// What clients said, connection by connection.
  std::string said() const {
    std::string all;
    for (const auto& c : pairs_) all += c->said;
    return all;
  }

  /// Nothing gets through; what is connected is cut, and what connects too.
  void close() {
    closed_ = true;
    for (const auto& c : pairs_) c->cut();
  }
  /// All connections are cut once, in the middle of what goes by.
  void cut_once(cut c, std::function<void()> then = {}) {
    cut_ = c;
    then_ = std::move(then);
  }
  bool has_cut() const { return has_cut_; }
  /// What is published stays here until it is let go.
  void hold_published() { holding_ = true; }
  std::size_t held_back() const {
    std::size_t n = 0;
    for (const auto& c : pairs_) n += c->held.size();
    return n;
  }
  void let_go() {
    holding_ = false;
    for (const auto& c : pairs_) {
      if (!c->held.empty()) asio::write(c->client, asio::buffer(std::exchange(c->held, {})));
    }
  }

 private:
  using protocol = asio::local::stream_protocol;
  using endpoint = protocol::endpoint;

  struct pair {
    explicit pair(protocol::socket c) : client{std::move(c)}, redis{client.get_executor()} {}
    void cut() {
      std::error_code ignored;
      client.close(ignored);
      redis.close(ignored);
    }
    protocol::socket client;
    protocol::socket redis;
    std::string said;
    std::string held;
  };

  asio::awaitable<void> accept() {
    for (;;) {
      auto accepted = acceptor_.async_accept(asio::use_awaitable);
      auto c = std::make_shared<pair>(co_await std::move(accepted));
      ++connections_;
      if (closed_) continue;
      std::error_code ec;
      c->redis.connect(endpoint{target_}, ec);
      if (ec) continue;
      pairs_.push_back(c);
      asio::co_spawn(io_, pump(c, way::to_redis), asio::detached);
      asio::co_spawn(io_, pump(c, way::to_client), asio::detached);
    }
  }

  asio::awaitable<void> pump(std::shared_ptr<pair> c, way w) {
    std::array<char, 16384> part;
    protocol::socket& from = w == way::to_redis ? c->client : c->redis;
    protocol::socket& to = w == way::to_redis ? c->redis : c->client;
    try {
      for (;;) {
        const std::size_t n = co_await from.async_read_some(asio::buffer(part), asio::use_awaitable);
        const std::string_view bytes{part.data(), n};
        if (w == way::to_redis) c->said += bytes;
        if (holding_ && w == way::to_client && c->said.find("\r\nSUBSCRIBE\r\n") != std::string::npos) {
          c->held += bytes;
          continue;
        }
        auto& count = passed_[static_cast<std::size_t>(w)];
        std::size_t through = n;
        const bool cuts = !has_cut_ && cut_ && cut_->direction == w && count + n > cut_->after;
        if (cuts) through = cut_->after - count;
        count += through;
        co_await asio::async_write(to, asio::buffer(part.data(), through), asio::use_awaitable);
        if (!cuts) continue;
        has_cut_ = true;
        if (then_) then_();
        for (const auto& each : pairs_) each->cut();
      }
    } catch (const std::system_error&) {
    }
    c->cut();
  }

  asio::io_context& io_;
  const std::string path_;
  const std::string target_;
  protocol::acceptor acceptor_;
  std::vector<std::shared_ptr<pair>> pairs_;
  std::array<std::size_t, 2> passed_{};
  std::size_t connections_ = 0;
  std::optional<cut> cut_;
  std::function<void()> then_;
  bool has_cut_ = false;
  bool closed_ = false;
  bool holding_ = false;
};

}  // namespace redis_test
