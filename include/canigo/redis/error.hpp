#pragma once

#include <string_view>
#include <system_error>
#include <type_traits>

namespace canigo::redis {

/// The errors between a client and Redis.
///
/// The library's own decisions have codes of their own:
/// - errc::timed_out: a command was sent and not answered in time;
/// - errc::store_unavailable: a command could not be sent in time;
/// - errc::too_large: a reply exceeded its bound;
/// - errc::stopped;
/// - Asio's operation_aborted: cancellation.
enum class error {
  command_failed = 1,  ///< an error reply that has no code of its own here
  no_script,           ///< NOSCRIPT: the script is not in the server's cache
  read_only,           ///< READONLY: the server is a replica
  loading,             ///< LOADING: the server reads its data in
  master_down,         ///< MASTERDOWN: a replica without its master
  cluster_down,        ///< CLUSTERDOWN
  moved,               ///< MOVED or ASK: another node of the cluster has the key
  busy,                ///< BUSY: a script runs for too long; TRYAGAIN: the keys are on their way to another node
  out_of_memory,       ///< OOM: the server's memory is full
  auth_required,       ///< NOAUTH: the server wants a password
  wrong_password,      ///< WRONGPASS, or any other answer to AUTH
  no_permission,       ///< NOPERM: the user may not do this
  wrong_type,          ///< WRONGTYPE: the key holds something else
  connection_lost,     ///< closed before the reply came; the command may have been executed, or not
  bad_reply,           ///< the reply is not Redis' protocol, or not an answer to the command
  no_master,           ///< no sentinel knows the master, or the server that it names is not one
  other_shape,         ///< processes with other rates, units or cap use this redis::limiter
  no_replicas,         ///< NOREPLICAS: the master may not write, because too few replicas follow it
};

/// The category "redis".
const std::error_category& error_category() noexcept;

/// The category "redis form": processes with another version of this library use the limit, and keep it in Redis in a
/// form that this version can't read. The code's value is that form. The message names that form, and the form of this
/// version. The limit works again once the last of these processes has gone, and its lease has ended.
const std::error_category& form_category() noexcept;

/// The code as `std::error_code`, so that `ec == redis::error::read_only` works.
std::error_code make_error_code(error code) noexcept;

/// The code for the text of an error reply, such as "NOSCRIPT No matching script". command_failed for an unknown word.
error error_of(std::string_view text) noexcept;

}  // namespace canigo::redis

template <>
struct std::is_error_code_enum<canigo::redis::error> : std::true_type {};
