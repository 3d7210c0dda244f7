#pragma once

#include <string_view>
#include <system_error>
#include <type_traits>

namespace canigo::redis {

/// The errors of communication with Redis.
///
/// Some errors have codes outside this enumeration:
/// - errc::timed_out: a command was sent and not answered in time;
/// - errc::store_unavailable: a command could not be sent in time;
/// - errc::too_large: a reply exceeded its bound;
/// - errc::stopped;
/// - Asio's operation_aborted: cancellation.
enum class error {
  command_failed = 1,  ///< an error reply for which there is no specific code in this enumeration
  no_script,           ///< NOSCRIPT: the script is not in the server's cache
  read_only,           ///< READONLY: the server is a replica, which refuses writes
  loading,             ///< LOADING: the server is still loading its data
  master_down,         ///< MASTERDOWN: the server is a replica that has lost its master
  cluster_down,        ///< CLUSTERDOWN: the cluster is not available
  moved,               ///< MOVED or ASK: another node of the cluster has the key
  busy,                ///< BUSY: a script has run for too long; TRYAGAIN: the keys are being moved to another node
  out_of_memory,       ///< OOM: the server's memory is full
  auth_required,       ///< NOAUTH: the server requires a password
  wrong_password,      ///< WRONGPASS, or another error reply to AUTH
  no_permission,       ///< NOPERM: the user lacks the permission for the command
  wrong_type,          ///< WRONGTYPE: the key holds another type of value
  connection_lost,  ///< the connection was closed before the reply arrived; the command may have been executed or not
  bad_reply,        ///< the reply violates the Redis protocol, or is not a possible reply to the command
  no_master,        ///< no sentinel knows the master, or the server that a sentinel names is no master
  other_shape,      ///< other processes use this redis::limiter with different rates, units or a different cap
  no_replicas,      ///< NOREPLICAS: the master refuses writes, because too few replicas are connected
};

/// The error category "redis".
const std::error_category& error_category() noexcept;

/// The error category "redis form". Its errors mean that processes with another version of this library use the same
/// limit. They store the limit in Redis in a format that this version can't read. The value of the code is the number
/// of that format. The message names that format and the format of this version. The limit works again in this process
/// after all those processes, and their leases, have ended.
const std::error_category& form_category() noexcept;

/// Converts to `std::error_code`, so that `ec == redis::error::read_only` compiles.
std::error_code make_error_code(error code) noexcept;

/// Returns the code for the text of an error reply, such as "NOSCRIPT No matching script". If the first word is
/// unknown, returns command_failed.
error error_of(std::string_view text) noexcept;

}  // namespace canigo::redis

template <>
struct std::is_error_code_enum<canigo::redis::error> : std::true_type {};
