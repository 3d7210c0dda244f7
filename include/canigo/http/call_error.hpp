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

/// The exception for a request that failed or was answered with a failure. Policies, breakers and retries decide by
/// this exception whether a call has failed, and whether to repeat it.
class call_error : public canigo::detail::error_at {
 public:
  call_error(std::error_code code, const request& r, http::response answer);

  /// The server's answer. If no answer came, the status is 0. The exception's text contains response::problem.
  const http::response& response() const noexcept { return *response_; }

  /// The minimum wait before another attempt: the wait that the server asks for, or zero. std::nullopt if another
  /// attempt would be useless or could do harm.
  /// A server that was not reached, or that answers 429, 503 or 529, has not executed the request. So any method may be
  /// sent again. The server may have executed the request if the connection broke, after a timeout, after a status of
  /// 408, 500, 502 or 504, and after any failure behind a redirect. In these cases only GET, HEAD, PUT, DELETE, OPTIONS
  /// and TRACE may be sent again. No request may be sent again if the answer has x-should-retry: false.
  std::optional<duration> wait_before_retry() const noexcept { return wait_; }

 private:
  std::shared_ptr<const http::response> response_;  // shared, because copying an exception must not throw
  std::optional<duration> wait_;
};

/// Like client::send(), but throws if the answer reports a failure: a status of 408, 429, or 500 and above.
///
/// Errors: call_error. Its code is errc::overloaded for 429, 503 and 529, and error::server_failed for the other
/// failure statuses. If no answer came, its code is the error code of client::send().
/// Cancellation: as for client::send().
/// Lifetime: `c` must live until the awaitable is started.
net::awaitable<response> send_checked(client& c, request r);

/// Throws call_error if the answer has a status of 408, 429, or 500 and above. Use it for the answers of client::open()
/// and download().
void throw_if_failed(const response& answer, const request& r);

/// A condition for retry_policy::retry_if. For a call_error, the condition returns its wait_before_retry(). Any other
/// exception tells neither the method of the request nor whether the request followed a redirect. So for such an
/// exception the condition allows a retry only if the server was not reached. The errc::timed_out of
/// policy_options::attempt_timeout is such an exception, so limit the time of a request with client_options::timeout
/// instead. If you do not use send_checked(), set client_options::max_redirects to 0 or never retry a POST.
struct retry_if_harmless {
  std::optional<duration> operator()(const std::exception_ptr& error) const noexcept;
};

/// A condition for circuit_breaker_options::failed_if: like is_failure_of_callee(), but false for failures of this
/// program.
///
/// Failures of this program are:
/// - an error in the request, such as error::malformed_url;
/// - a lack of file descriptors;
/// - a proxy or a client certificate that can't be used.
bool is_failure_of_server(const std::exception_ptr& error) noexcept;

}  // namespace canigo::http
