#pragma once

#include <system_error>
#include <type_traits>

namespace canigo::jobs {

/// The errors of job stores, and the reasons why a job ended without a result.
///
/// The text of the exception names the file or server, the database's own error code, and what to do. A call that
/// failed has written nothing, unless the code is unknown_outcome. Some errors have codes outside this enumeration:
/// errc::invalid_argument, invalid_priority, too_large, stopped, timed_out.
enum class error {
  full = 1,   ///< no disk space is left. Equals std::errc::no_space_on_device
  read_only,  ///< the store can't be written. Equals std::errc::read_only_file_system
  /// Other connections locked the store for too long. Equals std::errc::resource_unavailable_try_again.
  locked,
  corrupt,          ///< the file is damaged, or is not a database
  newer_schema,     ///< a newer version of this library made the tables
  cannot_open,      ///< the file or server can't be reached
  io,               ///< a read or a write failed. Equals std::errc::io_error
  unknown_outcome,  ///< the commit failed with an unknown result: the changes may be stored or not
  failed,           ///< any other error of the database
  unknown_job,      ///< the job does not exist, or was removed
  job_failed,       ///< the last attempt failed, and the job is dead. The error text is that of the last failure
  job_crashed,      ///< the process of the job crashed too often, and the job is dead
  job_expired,      ///< the deadline passed before the job was done. Equals std::errc::timed_out
  job_cancelled,    ///< the job was cancelled
  not_notified,     ///< changes by other processes are noticed late, so jobs begin late; only in store_facts::trouble
};

/// The error category "jobs".
const std::error_category& error_category() noexcept;

/// Converts to `std::error_code`, so that `ec == jobs::error::full` compiles.
std::error_code make_error_code(error code) noexcept;

}  // namespace canigo::jobs

template <>
struct std::is_error_code_enum<canigo::jobs::error> : std::true_type {};
