#pragma once

#include "canigo/time.hpp"
#include "canigo/timeout.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <algorithm>
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

/// A proxy between clients and Redis, on the loop of the test.
class proxy {
 public:
  enum class way { to_redis, to_client };
  struct cut {
    way direction;
    std::size_t after;  // the number of bytes, on all connections together, before the cut
  };

  proxy(asio::io_context& io, const std::string& path, const std::string& target)
      : path_{path}, core_{std::make_shared<core>(io, path, target)} {
    asio::co_spawn(io, accept(core_), asio::detached);
  }
  ~proxy() { close(); }
  proxy(const proxy&) = delete;
  proxy& operator=(const proxy&) = delete;

  std::string url() const { return "unix:" + path_; }
  std::size_t passed(way w) const { return core_->passed[static_cast<std::size_t>(w)]; }
  std::size_t connections() const { return core_->pairs.size(); }
  /// Returns what clients have sent, connection by connection.
  std::string said() const {
    std::string all;
    for (const auto& c : core_->pairs) all += c->said;
    return all;
  }

  /// Ends the proxy: connections are closed, and new ones are refused.
  void close() {
    core_->closed = true;
    std::error_code ignored;
    core_->acceptor.close(ignored);
    core_->cut();
  }
  /// Closes all connections once, in the middle of the data.
  void cut_once(cut c, std::function<void()> then = {}) {
    core_->where = c;
    core_->then = std::move(then);
  }
  bool has_cut() const { return core_->has_cut; }

  /// Whether Redis has received a command on some connection and has not begun to answer.
  bool awaits_redis() const {
    return std::ranges::any_of(core_->pairs, [](const auto& c) { return c->redis.is_open() && c->is_asking; });
  }

  /// Whether the newest connection is subscribed to a channel.
  bool newest_listens() const { return !core_->pairs.empty() && core_->pairs.back()->listens(); }

  /// Keeps the subscribed connections open, but passes no more data on them, as if the other machine had vanished.
  void silence_listeners() {
    for (const auto& c : core_->pairs) c->is_silent = c->listens();
  }

  /// Simulates a failover: new connections go to `target`, and connections without a subscription are closed.
  void move_to(const std::string& target) {
    core_->target = target;
    for (const auto& c : core_->pairs) {
      if (!c->listens()) c->cut();
    }
  }

  /// Delays each byte by this time, in each direction, from now on.
  void delay(canigo::duration d) { core_->delay = d; }
  /// Closes the present connections once. Clients can connect again.
  void cut_now() { core_->cut(); }

  /// Holds published messages back until they are released.
  void hold_published() { core_->holding = true; }
  std::size_t held_back() const {
    std::size_t n = 0;
    for (const auto& c : core_->pairs) n += c->held.size();
    return n;
  }
  void let_go() {
    core_->holding = false;
    for (const auto& c : core_->pairs) {
      if (!c->held.empty()) asio::write(c->client, asio::buffer(std::exchange(c->held, {})));
    }
  }

 private:
  using protocol = asio::local::stream_protocol;
  using endpoint = protocol::endpoint;

  struct pair {
    explicit pair(protocol::socket c) : client{std::move(c)}, redis{client.get_executor()} {}
    bool listens() const { return said.find("\r\nSUBSCRIBE\r\n") != std::string::npos; }
    void cut() {
      std::error_code ignored;
      client.close(ignored);
      redis.close(ignored);
    }
    protocol::socket client;
    protocol::socket redis;
    std::string said;
    std::string held;
    bool is_silent = false;
    bool is_asking = false;
  };

  struct core {
    core(asio::io_context& c, const std::string& path, std::string to)
        : io{c}, target{std::move(to)}, acceptor{c, endpoint{path}} {}
    void cut() {
      for (const auto& each : pairs) each->cut();
    }
    asio::io_context& io;
    std::string target;
    protocol::acceptor acceptor;
    std::vector<std::shared_ptr<pair>> pairs;
    std::array<std::size_t, 2> passed{};
    std::optional<proxy::cut> where;
    std::function<void()> then;
    bool has_cut = false;
    bool closed = false;
    bool holding = false;
    canigo::duration delay{};
  };

  static asio::awaitable<void> accept(std::shared_ptr<core> all) {
    for (;;) {
      auto accepted = all->acceptor.async_accept(asio::use_awaitable);
      auto c = std::make_shared<pair>(co_await std::move(accepted));
      std::error_code ec;
      c->redis.connect(endpoint{all->target}, ec);
      if (ec || all->closed) continue;
      all->pairs.push_back(c);
      asio::co_spawn(all->io, pump(all, c, way::to_redis), asio::detached);
      asio::co_spawn(all->io, pump(all, c, way::to_client), asio::detached);
    }
  }

  static asio::awaitable<void> carry(std::shared_ptr<pair> c, way w, std::string bytes, canigo::duration delay) {
    co_await canigo::sleep_for(delay);
    std::error_code ignored;
    if (w == way::to_redis) c->is_asking = true;
    asio::write(w == way::to_redis ? c->redis : c->client, asio::buffer(bytes), ignored);
  }

  static asio::awaitable<void> pump(std::shared_ptr<core> all, std::shared_ptr<pair> c, way w) {
    std::array<char, 16384> part;
    protocol::socket& from = w == way::to_redis ? c->client : c->redis;
    protocol::socket& to = w == way::to_redis ? c->redis : c->client;
    try {
      for (;;) {
        const std::size_t n = co_await from.async_read_some(asio::buffer(part), asio::use_awaitable);
        if (all->closed) break;
        const std::string_view bytes{part.data(), n};
        if (w == way::to_redis) {
          c->said += bytes;
        } else {
          c->is_asking = false;
        }
        if (c->is_silent) continue;
        if (all->holding && w == way::to_client && c->listens()) {
          c->held += bytes;
          continue;
        }
        auto& count = all->passed[static_cast<std::size_t>(w)];
        const bool cuts = !all->has_cut && all->where && all->where->direction == w && count + n > all->where->after;
        const std::size_t through = cuts ? all->where->after - count : n;
        count += through;
        if (all->delay > canigo::duration::zero()) {
          asio::co_spawn(all->io, carry(c, w, std::string{bytes}, all->delay), asio::detached);
          continue;
        }
        co_await asio::async_write(to, asio::buffer(part.data(), through), asio::use_awaitable);
        if (all->closed) break;
        if (!cuts) continue;
        all->has_cut = true;
        if (all->then) all->then();
        all->cut();
      }
    } catch (const std::system_error&) {
      // The connection was closed by this proxy or at the other end.
    }
    c->cut();
  }

  const std::string path_;
  const std::shared_ptr<core> core_;
};

}  // namespace redis_test
