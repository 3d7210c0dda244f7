#pragma once

#include <system_error>
#include <type_traits>

namespace canigo::jobs {

/// The errors of job stores, and the ends of jobs that bring no result.
///
/// The text of the exception names the file or server, the database's own code, and what to do. A call that failed has
/// written nothing, unless the code is unknown_outcome. The library's own decisions have codes of their own:
/// errc::invalid_argument, invalid_priority, too_large, stopped, timed_out.
enum class error {
  full = 1,         ///< no space is left. Equals std::errc::no_space_on_device
  read_only,        ///< the store can't be written. Equals std::errc::read_only_file_system
  locked,           ///< other connections kept it locked for too long. Equals std::errc::resource_unavailable_try_again
  corrupt,          ///< the file is damaged, or is not a database
  newer_schema,     ///< a newer version of this library made it
  cannot_open,      ///< the file or server can't be reached
  io,               ///< a read or a write failed. Equals std::errc::io_error
  unknown_outcome,  ///< the end of a transaction failed: it may have taken place, or not
  failed,           ///< any other error of the database
  unknown_job,      ///< there is no such job, or it was removed
  job_failed,       ///< the last attempt failed, and the job is dead. The text is that of the last error
  job_crashed,      ///< the job broke its process too often, and is dead
  job_expired,      ///< the deadline passed before the job was done. Equals std::errc::timed_out
  job_cancelled,    ///< the job was cancelled
  not_notified,     ///< the store works, and is not told of changes: jobs begin late. Only in store_facts
};

/// The category "jobs".
const std::error_category& error_category() noexcept;

/// The code as `std::error_code`, so that `ec == jobs::error::full` works.
std::error_code make_error_code(error code) noexcept;

}  // namespace canigo::jobs

template <>
struct std::is_error_code_enum<canigo::jobs::error> : std::true_type {};
