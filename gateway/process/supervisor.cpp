#include "gateway/process/supervisor.hpp"

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace canigo::gateway {
namespace {

std::optional<std::int64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits{text};
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc{} || end != digits.data() + digits.size() || n <= 0) return std::nullopt;
  return n;
}

}  // namespace

supervisor::supervisor() {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (*path != '/' && *path != '@')) return;
  path_ = path;
  if (path_.size() >= sizeof sockaddr_un{}.sun_path) return;
  if (path_.front() == '@') path_.front() = '\0';
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const auto pid = number_in("WATCHDOG_PID");
  if (pid && *pid != ::getpid()) return;
  if (const auto every = number_in("WATCHDOG_USEC")) watchdog_ = std::chrono::microseconds{*every};
}

supervisor::~supervisor() {
  if (socket_ >= 0) ::close(socket_);
}

void supervisor::tell(std::string_view lines) noexcept {
  if (socket_ < 0) return;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path_.data(), path_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
  ::sendto(socket_, lines.data(), lines.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), size);
}

void supervisor::tell_reloading() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now.tv_sec * 1'000'000 + now.tv_nsec / 1'000));
}

}  // namespace canigo::gateway
