#include "canigo/http/call_error.hpp"

#include "canigo/error.hpp"
#include "canigo/http/asked_wait.hpp"
#include "canigo/http/error.hpp"

#include "host_queue.hpp"
#include "request_check.hpp"
#include "told.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

namespace canigo::http {
namespace {

constexpr int request_timed_out = 408, too_many_requests = 429, first_failure = 500, unavailable = 503;
constexpr int overloaded = 529;  // Anthropic's status for an overload

template <std::size_t N>
bool is_one_of(const std::error_code& code, const error (&some)[N]) noexcept {
  return std::ranges::any_of(some, [&](error e) { return code == make_error_code(e); });
}

bool is_refusal(int status) noexcept {
  return status == too_many_requests || status == unavailable || status == overloaded;
}

bool fails(int status) noexcept {
  return status >= first_failure || status == request_timed_out || status == too_many_requests;
}

bool was_not_executed(const std::error_code& code) noexcept {
  return code == std::errc::too_many_files_open ||
         is_one_of(code, {error::could_not_connect, error::could_not_resolve_host, error::could_not_resolve_proxy});
}

/// Whether a later call may succeed after this failure. A later call may execute the request a second time, because the
/// server may have executed it in spite of the failure.
bool may_pass(const std::error_code& code, int status) noexcept {
  constexpr int passing[]{request_timed_out, first_failure, 502, 504};
  if (code == make_error_code(error::server_failed)) return std::ranges::find(passing, status) != std::end(passing);
  return code == errc::timed_out ||
         is_one_of(code, {error::no_response, error::partial_response, error::send_failed, error::receive_failed,
                          error::http2_failed, error::http2_stream_failed, error::tls_connect_failed});
}

std::optional<duration> wait_before(const std::error_code& code, const request& r, const response& answer) {
  const bool is_refused = (is_refusal(answer.status) && code == errc::overloaded) || was_not_executed(code);
  // A server that answers with a redirect may have executed the request first, for example a POST that it answers with
  // 303.
  const bool is_harmless = is_refused && answer.redirects == 0;
  const bool may_help = is_refused || may_pass(code, answer.status);
  if (!is_harmless && !(may_help && detail::is_idempotent(r.method))) return std::nullopt;
  const auto now = std::chrono::system_clock::now();
  if (detail::told_by(answer, now, duration::max()).forbids_retry) return std::nullopt;
  return asked_wait(answer, now).value_or(duration::zero());
}

std::string text_of(const response& answer) {
  if (!answer.problem.empty()) return answer.problem;
  if (answer.status == 0) return "the call had no answer";
  const std::string host = detail::host_in(answer.url);
  return (host.empty() ? "" : "at " + host + ", ") + "the answer had status " + std::to_string(answer.status);
}

std::error_code code_of(int status) noexcept {
  if (is_refusal(status)) return errc::overloaded;
  return error::server_failed;
}

}  // namespace

call_error::call_error(std::error_code code, const request& r, http::response answer)
    : canigo::detail::error_at{code, text_of(answer)},
      response_{std::make_shared<const http::response>(std::move(answer))},
      wait_{wait_before(code, r, *response_)} {}

net::awaitable<response> send_checked(client& c, request r) {
  if (const auto problem = detail::problem_of(r)) {
    canigo::detail::throw_invalid(problem->field, problem->value, problem->allowed);
  }
  request sent{r};
  detail::ended_transfer e = co_await c.run(std::move(sent));
  if (e.error) throw call_error{e.error, r, std::move(e.response)};
  throw_if_failed(e.response, r);
  co_return std::move(e.response);
}

void throw_if_failed(const response& answer, const request& r) {
  if (fails(answer.status)) throw call_error{code_of(answer.status), r, answer};
}

std::optional<duration> retry_if_harmless::operator()(const std::exception_ptr& error) const noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const call_error& e) {
    return e.wait_before_retry();
  } catch (const std::system_error& e) {
    return was_not_executed(e.code()) ? std::optional{duration::zero()} : std::nullopt;
  } catch (...) {
    return std::nullopt;
  }
}

bool is_failure_of_server(const std::exception_ptr& error) noexcept {
  if (!is_failure_of_callee(error)) return false;
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& e) {
    return e.code() != std::errc::too_many_files_open &&
           !is_one_of(e.code(), {http::error::unsupported_protocol, http::error::malformed_url,
                                 http::error::could_not_resolve_proxy, http::error::client_certificate_unusable,
                                 http::error::ca_file_unusable, http::error::address_refused,
                                 http::error::proxy_authentication_required});
  } catch (...) {
    return true;
  }
}

}  // namespace canigo::http
