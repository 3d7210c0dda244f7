#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace canigo::jobs::detail {

/// Sends datagrams that wake the other processes that have the same file open. Each process has a unix socket in a
/// common folder, named by the process's number.
///
/// It works on a best-effort basis: without sockets, no process is woken. Threads: one.
class wake_socket {
 public:
  wake_socket(std::string folder, std::int64_t number);
  wake_socket(const wake_socket&) = delete;
  wake_socket& operator=(const wake_socket&) = delete;
  ~wake_socket();

  /// The descriptor is readable after a wake-up by another process; -1 if there is no socket.
  int descriptor() const noexcept { return socket_; }
  /// Reads all datagrams, and returns whether one of them reports a change.
  bool drain() noexcept;
  /// Searches the folder for the sockets of other processes again.
  void look_round();
  /// Sends a datagram to all other processes, either to report a change or to check that they exist. Removes the
  /// sockets of processes that have ended, and returns the numbers of these processes.
  std::vector<std::int64_t> ring(bool has_news);

 private:
  std::string path_of(std::int64_t number) const;
  int tell(std::int64_t number, char what) const noexcept;

  const std::string folder_;
  const std::int64_t number_;
  int socket_ = -1;
  std::set<std::int64_t> others_;
};

}  // namespace canigo::jobs::detail
