#pragma once

#include "canigo/algorithms/backoff.hpp"
#include "canigo/jobs/job_info.hpp"
#include "canigo/jobs/store.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <system_error>

namespace canigo::jobs::detail {

/// How a run of a job ended, according to its service.
struct run_end {
  std::exception_ptr error;             // the exception of the handler; null: it has returned normally
  std::string result = {};              // the result of a handler that has returned
  std::optional<duration> snooze = {};  // the time for which the handler wants to snooze the job
  bool has_begun = {};                  // whether the handler was called
  bool is_lost = {};                    // whether another process may have claimed the job
  bool was_told_to_end = {};  // whether the service ended the run, because the job was cancelled, expired or lost
  bool is_service_stopping = {};
};

/// How a run ended, in the form that the store needs.
struct run_report {
  enum class type : std::uint8_t { nothing, complete, fail, snooze, give_back };
  type what = type::nothing;
  std::string text = {};             // the result, or the text of the failure
  duration span = duration::zero();  // the time until the next attempt; max: no further attempt is made
};

/// Makes the report of a run. `attempt`: the number of the run's attempt. `random`: 64 random bits, which determine the
/// time until the next attempt.
run_report report_of(run_end end, std::uint32_t attempt, const backoff& retry, std::uint64_t random);

net::awaitable<verdict> send(store& s, lease l, const run_report& r);

/// Returns the error code of an exception; no error if the exception has no code.
std::error_code code_of(const std::exception_ptr& error) noexcept;
std::string text_of(const std::exception_ptr& error);

}  // namespace canigo::jobs::detail
