#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/passed_sockets.hpp"

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace canigo::gateway {

/// A listening socket. The destructor closes it.
class listening_socket {
 public:
  /// Opens a socket that listens at `a`. Throws system_error, whose text names the address.
  ///
  /// If `a` is the path of a unix socket, a file may already exist at the path. If it is the file of a unix socket on
  /// which no process listens any more, replaces the file. Otherwise leaves the file unchanged, and throws.
  static listening_socket open(const listen_address& a, bool reuses_port);
  /// Takes the socket with this name and address from `passed`. If there is no such socket, or if it does not listen,
  /// throws std::runtime_error. The error text contains `name`.
  static listening_socket take(const std::vector<passed_socket>& passed, const std::string& name,
                               const listen_address& a);

  listening_socket(listening_socket&& other) noexcept;
  listening_socket& operator=(listening_socket&&) = delete;
  ~listening_socket();

  int descriptor() const noexcept { return descriptor_; }
  bool is_open() const noexcept { return descriptor_ >= 0; }
  /// Returns the socket's address, with the actual port: "127.0.0.1:8080", "[::1]:8080" or "unix:/path".
  const std::string& name() const noexcept { return name_; }
  /// The identity of a file: its device and inode. If the path has a file with another identity, the original file was
  /// replaced.
  struct file {
    dev_t device;
    ino_t number;
    friend bool operator==(const file&, const file&) = default;
  };

  int family() const noexcept { return family_; }
  /// Lets every user of this machine connect to the unix socket, whatever the umask is.
  void let_everybody_in();
  /// Closes the socket in this process. Removes the file of a unix socket if this object created it.
  void close() noexcept;

 private:
  listening_socket() = default;

  int descriptor_ = -1;
  int family_ = 0;
  std::string name_;
  std::string path_;
  std::optional<file> file_;  // the file of the unix socket, if this object has created the file
};

/// Returns the address of the socket's peer, without its port; empty for a unix socket.
std::string peer_of(int socket);

}  // namespace canigo::gateway
