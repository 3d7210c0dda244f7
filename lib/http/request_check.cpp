#include "request_check.hpp"

#include "text.hpp"

#include <algorithm>
#include <array>

namespace canigo::http::detail {
namespace {

constexpr std::string_view token = "letters, digits and !#$%&'*+-.^_`|~";

std::optional<request_problem> problem_of(const header& h) {
  const auto field = [&] { return std::string{"request.headers: "}.append(h.name); };
  if (!is_token(h.name)) return request_problem{"request.headers: a name", std::string{h.name}, token};
  // The value may be a secret, so the error text shows "(hidden)" instead.
  if (!is_field_value(h.value)) return request_problem{field(), "(hidden)", "no line break and no zero byte"};
  // Only the HTTP client itself may set the fields that define where the body ends. With a wrong value from its caller,
  // a server would take a part of the body for the next request.
  if (same_text(h.name, "Content-Length")) {
    return request_problem{field(), std::string{h.value}, "not to be given; it is that of the body"};
  }
  if (same_text(h.name, "Transfer-Encoding")) {
    return request_problem{field(), std::string{h.value}, "not to be given; the body is sent as it is"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<request_problem> problem_of(const request& r) {
  if (r.method == "CONNECT") return request_problem{"request.method", r.method, "not CONNECT; client_options.proxy is"};
  if (!is_token(r.method)) return request_problem{"request.method", r.method, token};
  if (!r.body.empty() && (r.method == "GET" || r.method == "HEAD")) {
    return request_problem{"request.body", std::to_string(r.body.size()) + " bytes", "none with GET or HEAD"};
  }
  if (!std::ranges::all_of(r.target, [](char c) { return c > ' ' && c < '\x7f'; })) {
    return request_problem{"request.target", "(hidden)", "visible characters of ASCII"};
  }
  if (r.timeout && *r.timeout <= duration::zero()) {
    return request_problem{"request.timeout", to_string(*r.timeout), "more than 0"};
  }
  if (r.linger < duration::zero()) {
    return request_problem{"request.linger", to_string(r.linger), "0s or more"};
  }
  for (const auto h : r.headers) {
    if (auto problem = problem_of(h)) return problem;
  }
  return std::nullopt;
}

bool is_idempotent(std::string_view method) noexcept {
  constexpr std::array all{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};
  return std::ranges::find(all, method) != all.end();
}

}  // namespace canigo::http::detail
