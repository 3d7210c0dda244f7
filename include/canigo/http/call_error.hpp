#pragma once

#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/http/request.hpp"
#include "canigo/http/response.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <system_error>

namespace canigo::http {

/// A request without a good answer, as an error: for a policy, a breaker or a retry, which judge calls by their errors.
class call_error : public canigo::detail::error_at {
 public:
  call_error(std::error_code code, const request& r, http::response answer);

  /// The answer; its status is 0 if none came. Its `problem` is in what().
  const http::response& response() const noexcept { return *response_; }

  /// Whether another attempt may end better and does no harm, and if so the least wait before it: that which the server
  /// asks for, or zero.
  ///  A server that was not reached, and one that answers 429, 503 or 529, has not executed the request. So any method
  /// may be sent again. After a connection that broke, a timeout, the statuses 408, 500, 502 and 504, and whatever
  /// happens behind a redirect, it may have been executed. So only GET, HEAD, PUT, DELETE, OPTIONS and TRACE may be
  /// sent again. Nothing may if the answer has x-should-retry: false.
  std::optional<duration> wait_before_retry() const noexcept { return wait_; }

 private:
  std::shared_ptr<const http::response> response_;  // copying an exception must not throw
  std::optional<duration> wait_;
};

/// client::send(), but an answer by which the server fails is an error: of the statuses from 500 on, 408 and 429.
///
/// Errors: call_error. Its code is errc::overloaded for 429, 503 and 529, error::server_failed for the others of these
/// statuses, and that of client::send() if there is no answer.
/// Cancellation: that of client::send().
/// Lifetime: `c` must live until this starts.
net::awaitable<response> send_checked(client& c, request r);

/// Throws call_error for an answer of these statuses, such as that of client::open() or download().
void throw_if_failed(const response& answer, const request& r);

/// For retry_policy::retry_if: call_error::wait_before_retry(). Of other errors, only a server that was not reached is
/// worth another attempt, because they don't tell the method. The errc::timed_out of policy_options::attempt_timeout is
/// such an error, so let client_options::timeout end a request. They don't tell of a redirect either: without
/// send_checked(), let the client follow none by client_options::max_redirects, or repeat no POST.
struct retry_if_harmless {
  std::optional<duration> operator()(const std::exception_ptr& error) const noexcept;
};

/// For circuit_breaker_options::failed_if: is_failure_of_callee(), but not for the faults of this side.
///
/// These are an error in the request, such as error::malformed_url, a lack of file descriptors, and a proxy or a
/// certificate that can't be used.
bool is_failure_of_server(const std::exception_ptr& error) noexcept;

}  // namespace canigo::http
