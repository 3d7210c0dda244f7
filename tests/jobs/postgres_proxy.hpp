#pragma once

#include "scratch_folder.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

/// A proxy between a store and a server on a Unix domain socket, which can drop an answer. It handles one connection at
/// a time.
class postgres_proxy {
 public:
  explicit postgres_proxy(const std::string& server) : server_{server + "/.s.PGSQL.5432"} {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un here = address_of(folder_.file(".s.PGSQL.5432"));
    ::bind(listener_, reinterpret_cast<const sockaddr*>(&here), sizeof here);
    ::listen(listener_, 9);
    thread_ = std::thread{[this] {
      while (!is_over_) {
        if (is_readable(listener_)) serve();
      }
    }};
  }
  postgres_proxy(const postgres_proxy&) = delete;
  postgres_proxy& operator=(const postgres_proxy&) = delete;
  ~postgres_proxy() {
    is_over_ = true;
    thread_.join();
    ::close(listener_);
  }

  std::string folder() const { return folder_.file("."); }
  /// Passes the next request to the server, drops the whole answer, and closes the connection.
  void cut() { is_cutting_ = true; }
  /// Like cut(), for the next request that contains this text.
  void cut_at(std::string text) {
    const std::lock_guard lock{mutex_};
    cut_at_ = std::move(text);
  }

 private:
  static sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
  }
  static bool is_readable(int descriptor) {
    pollfd fd{.fd = descriptor, .events = POLLIN, .revents = 0};
    return ::poll(&fd, 1, 20) == 1;
  }
  static bool send(int to, std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  bool cuts_at(std::string_view request) {
    const std::lock_guard lock{mutex_};
    if (cut_at_.empty() || request.find(cut_at_) == request.npos) return false;
    cut_at_.clear();
    return true;
  }

  void serve() {
    const int client = ::accept(listener_, nullptr, nullptr);
    const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un there = address_of(server_);
    bool goes_on = ::connect(server, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0;
    bool is_lost = false;  // whether to drop the rest of the current answer
    std::string bytes(1 << 16, '\0');
    while (goes_on && !is_over_) {
      pollfd fds[] = {{.fd = client, .events = POLLIN, .revents = 0}, {.fd = server, .events = POLLIN, .revents = 0}};
      if (::poll(fds, 2, 20) <= 0) continue;
      if (fds[0].revents != 0) {
        const auto size = ::recv(client, bytes.data(), bytes.size(), 0);
        const std::string_view request{bytes.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
        goes_on = !request.empty() && send(server, request);
        is_lost = is_lost || is_cutting_.exchange(false) || cuts_at(request);
      }
      if (goes_on && fds[1].revents != 0) {
        const auto size = ::recv(server, bytes.data(), bytes.size(), 0);
        const std::string_view answer{bytes.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
        goes_on = !answer.empty() && (is_lost || send(client, answer));
        // The last message of an answer is ReadyForQuery.
        const std::string_view ready("Z\0\0\0\x05", 5);
        if (is_lost && answer.size() >= 6 && answer.substr(answer.size() - 6, 5) == ready) break;
      }
    }
    ::close(client);
    ::close(server);
  }

  const std::string server_;
  scratch_folder folder_;
  int listener_ = -1;
  std::atomic<bool> is_over_{false};
  std::atomic<bool> is_cutting_{false};
  std::mutex mutex_;
  std::string cut_at_;  // the next request with this text is cut; empty: no request is cut
  std::thread thread_;
};
