#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace redis_test {

/// A connection that is subscribed to one channel during the lifetime of this object.
class channel_listener {
 public:
  channel_listener(const std::string& socket_path, const std::string& channel) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
    const std::string wish = "SUBSCRIBE " + channel + "\r\n";
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::send(socket_, wish.data(), wish.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(wish.size())) {
      throw std::runtime_error{"no subscription"};
    }
    until_heard("subscribe");
  }
  ~channel_listener() { ::close(socket_); }
  channel_listener(const channel_listener&) = delete;
  channel_listener& operator=(const channel_listener&) = delete;

  /// Waits until Redis has published this text.
  void until_heard(std::string_view text) {
    while (heard_.find(text) == std::string::npos) {
      char more[512];
      const auto n = ::recv(socket_, more, sizeof more, 0);
      if (n <= 0) throw std::runtime_error{"the subscription has ended"};
      heard_.append(more, static_cast<std::size_t>(n));
    }
  }

 private:
  const int socket_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
  std::string heard_;
};

}  // namespace redis_test
