#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/call/client_keeper.hpp"
#include "gateway/wire/byte_stream.hpp"
#include "support/limits_run.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/generic/stream_protocol.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

/// A call in virtual time whose client gets messages while it waits, and the client's end of the connection.
struct kept_run {
  kept_run() {
    int ends[2] = {};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw std::system_error{errno, std::system_category()};
    own_ = ends[0];
    client_ = ends[1];
  }
  ~kept_run() {
    leave();
    if (own_ >= 0) ::close(own_);
  }
  kept_run(const kept_run&) = delete;
  kept_run& operator=(const kept_run&) = delete;

  /// Starts the call: `body` with a keeper. Its coroutine frame owns the connection and the keeper, like that of a real
  /// call.
  template <class Body>
  void go(const canigo::gateway::keeping_times& times, Body body) {
    made_at.reserve(100);
    run->go(call(*this, times, std::move(body)), stop, ended);
  }

  void leave() {
    if (client_ >= 0) ::close(client_);
    client_ = -1;
  }
  /// Returns how many bytes the client has received since the last call.
  std::size_t take() const {
    static std::array<char, 1 << 16> room;
    const auto n = ::recv(client_, room.data(), room.size(), MSG_DONTWAIT);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  /// Receives bytes at the client until none arrive.
  std::size_t take_all() const {
    std::size_t all = 0;
    for (std::size_t n = 1; n > 0; all += n) {
      run->time.poll();
      n = take();
    }
    return all;
  }

  std::unique_ptr<limits_run> run = std::make_unique<limits_run>();
  canigo::net::cancellation_signal stop;
  canigo::duration stall = std::chrono::seconds{60};
  std::string text = ".";
  std::size_t makes = 1000;   // how many texts can be made before an allocation fails
  std::vector<long> made_at;  // when each text was made, in ms
  std::vector<bool> results;  // the result of each wait
  std::error_code ended;
  int lost = 0;
  bool has_ended = false;

 private:
  template <class Body>
  static auto call(kept_run& k, canigo::gateway::keeping_times times, Body body) {
    return [&k, times, body = std::move(body)]() -> canigo::net::awaitable<void> {
      struct at_end {
        bool& flag;
        ~at_end() { flag = true; }
      };
      const at_end note{k.has_ended};
      const canigo::net::generic::stream_protocol protocol{AF_UNIX, 0};
      canigo::gateway::byte_stream connection{
          canigo::gateway::stream_socket{k.run->io, protocol, std::exchange(k.own_, -1)}};
      const auto next = [&k] {
        if (k.made_at.size() == k.makes) throw std::bad_alloc{};
        k.made_at.push_back(k.run->ms());
        return k.text;
      };
      const auto lost = [&k] { ++k.lost; };
      canigo::gateway::client_keeper keeper{k.run->io.get_executor(), connection, k.stall, times, next, lost};
      co_await body(keeper);
    };
  }

  int own_ = -1;  // the descriptor of the socket until the call owns the socket
  int client_ = -1;
};
