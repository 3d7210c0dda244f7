#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace canigo::jobs::detail {

/// Datagrams between the processes that have one file open. Each has a socket in a folder, by its number.
///
/// It does what it can: without sockets, no process is told of anything. One thread.
class wake_socket {
 public:
  wake_socket(std::string folder, std::int64_t number);
  wake_socket(const wake_socket&) = delete;
  wake_socket& operator=(const wake_socket&) = delete;
  ~wake_socket();

  /// Readable when another process rings; -1: there is no socket.
  int descriptor() const noexcept { return socket_; }
  /// Takes what has come, and says whether there is news.
  bool drain() noexcept;
  /// Looks for the other sockets anew.
  void look_round();
  /// Rings all others, with news or to see whether they are there. Returns those whose processes are gone; it has
  /// removed their sockets.
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
