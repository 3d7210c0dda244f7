#include "gateway/call/answer.hpp"

#include "gateway/wire/message_parser.hpp"
#include "gateway/wire/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace canigo::gateway {

void append_json_string(std::string& to, std::string_view text) {
  static constexpr character_set plain{[](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; }};
  // Most texts contain no character to escape, so this faster path needs no JSON encoder.
  if (plain.has_all_of(text)) {
    to.append(1, '"').append(text).append(1, '"');
  } else {
    to += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

std::string json_string(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}

std::string seconds_up(duration d) {
  return std::to_string(std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(d).count()));
}

std::string milliseconds_up(duration d) {
  return std::to_string(std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(d).count()));
}

void append_own_fields(std::string& to, const call_record& r) {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(r.waited).count();
  to.append("X-Request-Id: ").append(r.id);
  to.append("\r\nX-Canigo-Wait-Ms: ").append(std::to_string(waited));
  to.append("\r\nX-Canigo-Attempts: ").append(std::to_string(r.attempts)).append("\r\n");
}

std::string problem(const refusal& why, const call_record& r, std::string_view connection, bool to_head) {
  // Client libraries look for the text of an error in different members: an object `error`, `message`, or `detail` of
  // RFC 9457. So the answer has all three members.
  const std::string message = json_string("canigo-gateway: " + why.detail);
  const std::string code = json_string(why.error);
  const std::string body =
      fmt::format(R"({{"error":{{"message":{0},"type":{1},"code":{1}}},"message":{0},)"
                  R"("type":"about:blank","title":{2},"status":{3},"detail":{4}}})"
                  "\n",
                  message, code, json_string(reason_of(why.status)), why.status, json_string(why.detail));
  const std::string_view type = r.wants_problem ? "application/problem+json" : "application/json";
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n", why.status,
                                 reason_of(why.status), type, body.size());
  text.append("X-Canigo-Error: ").append(why.error).append("\r\n");
  if (why.retry_after) {
    text.append("Retry-After: ").append(seconds_up(*why.retry_after));
    text.append("\r\nRetry-After-Ms: ").append(milliseconds_up(*why.retry_after)).append("\r\n");
  }
  if (why.is_final) text.append("X-Should-Retry: false\r\n");
  text.append(why.rate_fields);
  if (why.status == 401) text.append("WWW-Authenticate: Bearer\r\n");
  // Clients of proxies authenticate with Basic: the password is the tenant's key.
  if (why.status == 407) text.append("Proxy-Authenticate: Basic realm=\"canigo-gateway\"\r\n");
  append_own_fields(text, r);
  text.append(connection).append("\r\n");
  if (!to_head) text += body;
  return text;
}

std::string events_head(const call_record& r, std::string_view connection) {
  return fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Request-Id: {}\r\n"
      "Transfer-Encoding: chunked\r\n{}\r\n",
      r.id, connection);
}

std::string chunk_of(std::string_view text) { return fmt::format("{:x}\r\n{}\r\n", text.size(), text); }

std::string page_head(int status, std::string_view type, std::string_view fields) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nCache-Control: no-store\r\n"
      "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'\r\n"
      "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\n{}\r\n",
      status, reason_of(status), type, fields);
}

std::string page(int status, std::string_view type, std::string_view body, bool closes, bool to_head,
                 std::string_view fields) {
  const std::string all =
      fmt::format("Content-Length: {}\r\n{}{}", body.size(), fields, closes ? "Connection: close\r\n" : "");
  std::string text = page_head(status, type, all);
  if (!to_head) text += body;
  return text;
}

}  // namespace canigo::gateway
