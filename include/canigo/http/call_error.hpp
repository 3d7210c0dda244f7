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

  /// The least wait before another attempt, if one may end better and does no harm: the wait that the server asks for,
  /// or zero. Otherwise nothing.
  /// A server that was not reached, and one that answers 429, 503 or 529, has not executed the request. So any method
  /// may be sent again. After a broken connection, a timeout, a status of 408, 500, 502 or 504, or any failure behind a
  /// redirect, it may have been executed. So only GET, HEAD, PUT, DELETE, OPTIONS and TRACE may be sent again. No
  /// request may be sent again if the answer has x-should-retry: false.
  std::optional<duration> wait_before_retry() const noexcept { return wait_; }

 private:
  std::shared_ptr<const http::response> response_;  // copying an exception must not throw
  std::optional<duration> wait_;
};

/// Like client::send(), but an answer that reports a failure of the server is an error: the statuses from 500 on, 408
/// and 429.
///
/// Errors: call_error. Its code is errc::overloaded for 429, 503 and 529, error::server_failed for the others of these
/// statuses, and that of client::send() if there is no answer.
/// Cancellation: that of client::send().
/// Lifetime: `c` must live until this starts.
net::awaitable<response> send_checked(client& c, request r);

/// Throws call_error if the answer has one of these statuses; for answers such as those of client::open() or
/// download().
void throw_if_failed(const response& answer, const request& r);

/// For retry_policy::retry_if: call_error::wait_before_retry(). Other errors don't tell the method. So of those, only a
/// server that was not reached is worth another attempt. The errc::timed_out of policy_options::attempt_timeout is such
/// an error, so let client_options::timeout end a request. Nor do they tell of a redirect: without send_checked(), let
/// the client follow none by client_options::max_redirects, or repeat no POST.
struct retry_if_harmless {
  std::optional<duration> operator()(const std::exception_ptr& error) const noexcept;
};

/// For circuit_breaker_options::failed_if: like is_failure_of_callee(), but false for the faults of this side.
///
/// These are an error in the request, such as error::malformed_url, a lack of file descriptors, and a proxy or a
/// certificate that can't be used.
bool is_failure_of_server(const std::exception_ptr& error) noexcept;

}  // namespace canigo::http
