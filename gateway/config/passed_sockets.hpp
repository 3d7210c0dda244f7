#pragma once

#include <string>
#include <vector>

namespace canigo::gateway {

/// A listening socket that the process inherited at its start.
struct passed_socket {
  int descriptor = -1;
  std::string name;
};

/// Returns the sockets that systemd, or another supervisor, has passed to the process. The first three arguments are
/// the values of LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES; null: the variable is not set.
///
/// Returns nothing if the sockets are meant for another process than `own_pid`, or if a variable is malformed. Without
/// LISTEN_FDNAMES each socket has the name "unknown", as in sd_listen_fds_with_names(3).
std::vector<passed_socket> read_passed_sockets(const char* pid, const char* count, const char* names, int own_pid);

}  // namespace canigo::gateway
