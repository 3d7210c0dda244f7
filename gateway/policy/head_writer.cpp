#include "gateway/policy/head_writer.hpp"

#include "gateway/policy/fields.hpp"
#include "gateway/wire/text.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace canigo::gateway {
namespace {

constexpr std::size_t usual_head = 512;  // reserved for a head, in bytes; a longer head needs another allocation

/// Returns true if a client's request field with this name is not forwarded: the gateway writes the field itself, or
/// drops it.
bool is_own_of_request(std::string_view name) noexcept {
  constexpr std::string_view names[] = {"Host", "Content-Length", "Expect", "Forwarded"};
  return std::ranges::any_of(names, [&](std::string_view n) { return same_text(n, name); }) ||
         starts_with_text(name, "X-Canigo-") || starts_with_text(name, "X-Forwarded-");
}

/// Whether this field may carry a credential of the client. If the gateway sends its own credential, it forwards none
/// of these fields. An SDK may put the key of a tenant into any of them, and an upstream that gets two credentials may
/// use the wrong one.
bool is_credential(std::string_view name) noexcept {
  constexpr std::string_view names[] = {"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"};
  return std::ranges::any_of(names, [&](std::string_view n) { return same_text(n, name); });
}

bool is_own_of_response(std::string_view name) noexcept {
  constexpr std::string_view names[] = {"Content-Length", "X-Upstream-Request-Id", "Alt-Svc"};
  return std::ranges::any_of(names, [&](std::string_view n) { return same_text(n, name); }) ||
         starts_with_text(name, "X-Canigo-");
}

/// Returns the address in the form of RFC 7239: an IPv6 address is put in brackets and quotes.
std::string node_of(std::string_view address) {
  std::string node{address};
  return address.find(':') == address.npos ? node : "\"[" + node + "]\"";
}

void add_forwarded(const client_place& c, head_text& text) {
  const std::string_view proto = c.is_tls ? "https" : "http";
  // A client that connects over a unix socket has no address.
  const std::string node = c.address.empty() ? "unknown" : node_of(c.address);
  text.add("Forwarded", "for=" + node + ";host=\"" + std::string{c.host} + "\";proto=" + std::string{proto});
  if (!c.address.empty()) text.add("X-Forwarded-For", c.address);
  text.add("X-Forwarded-Host", c.host);
  text.add("X-Forwarded-Proto", proto);
}

}  // namespace

head_text head_text::of_request(std::string_view method, std::string_view target) {
  head_text t;
  t.text_.reserve(usual_head);
  t.text_.append(method).append(" ").append(target).append(" HTTP/1.1\r\n");
  return t;
}

head_text head_text::of_response(int status, std::string_view reason) {
  head_text t;
  t.text_.append("HTTP/1.1 ").append(std::to_string(status)).append(" ").append(reason).append("\r\n");
  return t;
}

void head_text::add(std::string_view name, std::string_view value) {
  if (is_token(name) && is_field_value(value)) text_.append(name).append(": ").append(value).append("\r\n");
}

void head_text::add(const outgoing_body& body) {
  switch (body.how) {
    case outgoing_body::framing::none:
      return;
    case outgoing_body::framing::length:
      return add("Content-Length", std::to_string(body.length));
    case outgoing_body::framing::chunked:
      return add("Transfer-Encoding", "chunked");
  }
}

std::string head_text::take() && {
  text_.append("\r\n");
  return std::move(text_);
}

std::string request_head(const message_head& head, const outgoing_request& out) {
  const std::vector<std::string_view> named = named_by_connection(head);
  const bool is_replaced = out.credential != nullptr && !out.credential->is_passed();
  head_text text = head_text::of_request(head.method, out.target);
  text.add("Host", out.host_field);
  for (const field& f : head.fields) {
    if (is_of_connection(f.name) || is_own_of_request(f.name) || is_one_of(f.name, named)) continue;
    if (is_replaced && (is_credential(f.name) || same_text(f.name, out.credential->header))) continue;
    if (out.wants_identity && same_text(f.name, "Accept-Encoding")) continue;
    text.add(f.name, f.value);
  }
  if (is_replaced) text.add(out.credential->header, out.credential->value.value);
  if (out.wants_identity) text.add("Accept-Encoding", "identity");
  if (out.forwarded) add_forwarded(*out.forwarded, text);
  text.add("Via", out.via);
  if (out.is_websocket) {
    text.add("Connection", "Upgrade");
    text.add("Upgrade", "websocket");
  }
  text.add(out.body);
  return std::move(text).take();
}

std::string keep_alive_line(duration idle) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(idle).count() - 1;
  return seconds < 1 ? std::string{} : "Keep-Alive: timeout=" + std::to_string(seconds) + "\r\n";
}

void append_response_fields(std::string& to, const message_head& head) {
  const std::vector<std::string_view> named = named_by_connection(head);
  for (const field& f : head.fields) {
    if (is_of_connection(f.name) || is_own_of_response(f.name) || is_one_of(f.name, named)) continue;
    if (!is_token(f.name) || !is_field_value(f.value)) continue;
    to.append(same_text(f.name, "X-Request-Id") ? "X-Upstream-Request-Id" : f.name);
    to.append(": ").append(f.value).append("\r\n");
  }
}

}  // namespace canigo::gateway
