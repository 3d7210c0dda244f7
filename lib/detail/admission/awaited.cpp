#include "canigo/detail/admission/awaited.hpp"

#include "canigo/error.hpp"

#include <exception>
#include <new>
#include <string>
#include <system_error>

namespace canigo::detail {

request as_request(int priority) noexcept { return {.priority = priority}; }

void throw_refusal(const admission& home, const request& r, outcome o) {
  if (o != to_outcome(errc::stopped)) home.check(r);  // throws if a field of `r` is invalid; the error names the field
  if (home.name() != nullptr) throw error_at{to_error_code(o), *home.name()};
  throw std::system_error{to_error_code(o)};
}

std::exception_ptr error_in_queue(const limit_name& limit, std::error_code error) noexcept {
  const bool was_refused = error == errc::queue_full || error == errc::deadline_unreachable;
  if (was_refused && limit == nullptr) return to_exception(error);
  try {
    const std::string name = limit != nullptr ? *limit : "a limit";
    return std::make_exception_ptr(error_at{error, was_refused ? name : "in the queue of " + name});
  } catch (...) {
    // there is no memory for a text with the limit's name, so the exception has only the text of its code
    return to_exception(error);
  }
}

}  // namespace canigo::detail
