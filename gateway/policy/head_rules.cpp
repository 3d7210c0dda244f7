#include "gateway/policy/head_rules.hpp"

#include "gateway/policy/fields.hpp"
#include "gateway/wire/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

namespace canigo::gateway {
namespace {

refusal refuse(int status, std::string detail) { return {status, "bad_request", std::move(detail)}; }
refusal bad(std::string detail) { return refuse(400, std::move(detail)); }

std::optional<refusal> judge_method(std::string_view method) {
  if (!is_token(method)) return bad("the method is no token");
  // A method with a lower-case letter is refused: all registered methods are in upper case, but some servers take "get"
  // for GET.
  if (std::ranges::any_of(method, [](char c) { return c >= 'a' && c <= 'z'; }))
    return bad("the method is not in upper case");
  // RFC 9110, 9.3.8: the answer to TRACE would repeat the request with the gateway's credential. The tenant must not
  // see that credential.
  if (method == "TRACE") return refuse(501, "TRACE is not passed on");
  return std::nullopt;
}

/// Whether the value of an Upgrade field contains "websocket".
bool names_websocket(std::string_view upgrade) noexcept {
  bool does = false;
  for_each_element(upgrade, [&](std::string_view protocol) {
    does = does || same_text(protocol.substr(0, protocol.find('/')), "websocket");
  });
  return does;
}

/// The header fields that this file checks: how often each of them occurs, and its last value.
struct field_census {
  std::size_t hosts = 0;
  std::string_view host;
  std::size_t lengths = 0;
  std::string_view length;
  std::size_t codings = 0;
  std::string_view coding;
  std::size_t expectations = 0;
  std::string_view expectation;
  std::size_t connections = 0;
  bool wants_websocket = false;
  std::size_t upgrades = 0;
  std::string_view upgrade;
};

std::optional<refusal> count_fields(const message_head& head, field_census& census) {
  for (const field& f : head.fields) {
    if (!is_token(f.name)) return bad("a field's name is no token");
    if (!is_field_value(f.value)) return bad("a field's value has a control character");
    const auto count = [&](std::size_t& n, std::string_view& last) {
      ++n;
      last = trim(f.value);
    };
    if (same_text(f.name, "Host")) {
      count(census.hosts, census.host);
    } else if (same_text(f.name, "Content-Length")) {
      count(census.lengths, census.length);
    } else if (same_text(f.name, "Transfer-Encoding")) {
      count(census.codings, census.coding);
    } else if (same_text(f.name, "Expect")) {
      count(census.expectations, census.expectation);
    } else if (same_text(f.name, "Connection")) {
      ++census.connections;
    } else if (same_text(f.name, "Upgrade")) {
      count(census.upgrades, census.upgrade);
      census.wants_websocket = census.wants_websocket || names_websocket(f.value);
    }
  }
  return std::nullopt;
}

std::optional<refusal> judge_framing(const field_census& census, int version, std::uint64_t most, request_plan& plan) {
  if (census.codings > 0) {
    if (version < 11) return bad("Transfer-Encoding is not of HTTP/1.0");
    if (census.lengths > 0) return bad("there are both Transfer-Encoding and Content-Length");
    if (census.codings > 1 || !same_text(census.coding, "chunked"))
      return bad("Transfer-Encoding is something else than exactly one \"chunked\"");
    plan.is_chunked = true;
    return std::nullopt;
  }
  if (census.lengths == 0) return std::nullopt;
  if (census.lengths > 1) return bad("there is more than one Content-Length");
  const std::string_view text = census.length;
  const bool is_plain = !text.empty() && std::ranges::all_of(text, is_digit) && (text.size() == 1 || text[0] != '0');
  if (!is_plain) return bad("Content-Length is no plain number");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), plan.length);
  if (error != std::errc{} || plan.length > most)
    return refuse(413, fmt::format("the body is longer than {} bytes", most));
  plan.has_length = true;
  return std::nullopt;
}

std::optional<refusal> judge_connection(const message_head& head) {
  for (const std::string_view name : named_by_connection(head)) {
    if (!is_token(name)) return bad("Connection names something that is no token");
    if (same_text(name, "Host") || same_text(name, "Authorization") || same_text(name, "Cookie") ||
        starts_with_text(name, "Content-"))
      return bad(fmt::format("Connection names {}, which is of the message", name));
  }
  return std::nullopt;
}

/// Whether the head is a websocket handshake whose field Upgrade names no other protocol.
///
/// Source: RFC 6455, 4.1.
bool is_handshake(const message_head& head, const field_census& census, const request_plan& plan) {
  const bool has_body = plan.is_chunked || plan.length > 0;
  return plan.form == target_form::origin && head.method == "GET" && head.version == 11 && !has_body &&
         census.upgrades == 1 && same_text(census.upgrade, "websocket") && census.expectations == 0 &&
         is_one_of("Upgrade", named_by_connection(head)) && count_of(head, "Sec-WebSocket-Key") == 1 &&
         count_of(head, "Sec-WebSocket-Version") == 1;
}

/// Builds the refusal of a malformed authority (host and port): status 403 if its host is malformed, else status 400.
/// No configuration can allow a malformed host, because some resolvers would take it for another host.
refusal refuse_authority(std::string_view text, const char* otherwise) {
  const auto bracket = text.rfind(']');
  const std::string_view host = text.substr(0, text.find(':', bracket == text.npos ? 0 : bracket));
  if (host.empty() || parse_host(host)) return bad(otherwise);
  return {403, "destination_forbidden", "the target's host is no plain name or address"};
}

/// Reads an absolute-form target into `plan`: its host and port, and the path after them. Returns a refusal if the
/// target is malformed.
std::optional<refusal> read_absolute(std::string_view target, request_plan& plan) {
  plan.form = target_form::absolute;
  plan.is_tls = starts_with_text(target, "https://");
  if (!plan.is_tls && !starts_with_text(target, "http://")) return bad("the target's scheme is neither http nor https");
  target.remove_prefix(target.find("//") + 2);
  const auto end = std::min(target.find_first_of("/?"), target.size());
  const std::string_view authority = target.substr(0, end);
  auto found = parse_host_and_port(authority);
  if (!found) return refuse_authority(authority, "the target has no HOST or HOST:PORT");
  plan.host = std::move(found->host);
  plan.port = found->port.value_or(plan.is_tls ? 443 : 80);
  plan.path = target.substr(end);
  return std::nullopt;
}

std::optional<refusal> judge_target(const message_head& head, listen_mode mode, request_plan& plan) {
  const std::string_view target = head.target;
  if (target.empty()) return bad("the target is empty");
  if (!std::ranges::all_of(target, [](char c) { return c > 0x20 && c < 0x7f; }))
    return bad("the target has a byte that is not visible ASCII");
  if (target.find('#') != target.npos) return bad("the target has a fragment");
  if (head.method == "CONNECT") {
    if (mode == listen_mode::reverse) return bad("CONNECT is for forward mode");
    auto found = parse_host_and_port(target);
    if (!found || !found->port) return refuse_authority(target, "the target of CONNECT is no HOST:PORT");
    plan.form = target_form::tunnel;
    plan.host = std::move(found->host);
    plan.port = *found->port;
    return std::nullopt;
  }
  if (target.front() == '/') {
    if (mode == listen_mode::forward) return bad("the target is no absolute URL, as forward mode wants it");
    plan.path = target;
    return std::nullopt;
  }
  if (mode == listen_mode::reverse) return bad("the target does not begin with '/'");
  return read_absolute(target, plan);
}

/// Checks the Host field. If the target has absolute form, Host may name another host than the target (RFC 9112,
/// 3.2.2), because the outgoing Host is built from the target.
std::optional<refusal> judge_host(const field_census& census, int version, const request_plan& plan) {
  // Python before 3.12 sends CONNECT in HTTP/1.0 without Host. Such a request is accepted, because the target of a
  // CONNECT names the host.
  if (census.hosts == 0 && version == 10 && plan.form == target_form::tunnel) return std::nullopt;
  if (census.hosts != 1) return bad(census.hosts == 0 ? "there is no Host" : "there is more than one Host");
  if (!parse_host_and_port(census.host)) return bad("Host is no plain name or address");
  return std::nullopt;
}

std::optional<refusal> judge_all(const message_head& head, listen_mode mode, const size_limits& limits,
                                 request_plan& plan) {
  if (head.version != 10 && head.version != 11) return refuse(505, "the version is neither HTTP/1.0 nor HTTP/1.1");
  if (head.target.size() > limits.target)
    return refuse(414, fmt::format("the target is longer than {} bytes", limits.target));
  if (head.fields.size() > limits.fields)
    return refuse(431, fmt::format("there are more than {} fields", limits.fields));
  if (auto no = judge_method(head.method)) return no;
  field_census census;
  if (auto no = count_fields(head, census)) return no;
  if (auto no = judge_framing(census, head.version, limits.body, plan)) return no;
  if (auto no = judge_target(head, mode, plan)) return no;
  if (auto no = judge_host(census, head.version, plan)) return no;
  if (plan.form == target_form::tunnel && (plan.is_chunked || plan.length > 0)) return bad("CONNECT has a body");
  if (census.connections > 0)
    if (auto no = judge_connection(head)) return no;
  if (census.wants_websocket) {
    plan.is_websocket = is_handshake(head, census, plan);
    if (!plan.is_websocket) return refuse(501, "Upgrade asks for a websocket, but this is no handshake of one");
  }
  // Expect is ignored in HTTP/1.0, whose clients send the body without waiting for 100 Continue.
  if (census.expectations > 0 && head.version == 11) {
    if (census.expectations > 1 || !same_text(census.expectation, "100-continue"))
      return refuse(417, "Expect is something else than \"100-continue\"");
    plan.wants_continue = plan.is_chunked || plan.length > 0;
  }
  return std::nullopt;
}

}  // namespace

head_judgement judge_head(const message_head& head, listen_mode mode, const size_limits& limits) {
  head_judgement j;
  j.refused = judge_all(head, mode, limits, j.plan);
  return j;
}

refusal refuse_websocket() {
  return refuse(501, "this upstream takes no websockets, because its key websocket is not set");
}

bool may_leave_http(const message_head& head) noexcept {
  return head.method == "CONNECT" || std::ranges::any_of(head.fields, [](const field& f) {
           return same_text(f.name, "Upgrade") && names_websocket(f.value);
         });
}

std::optional<refusal> judge_loop(const message_head& head, std::string_view via) {
  const std::string_view own = via.substr(via.find(' ') + 1);
  for (const field& f : head.fields) {
    if (!same_text(f.name, "Via")) continue;
    bool is_own = false;
    for_each_element(f.value, [&](std::string_view element) {
      // An element of Via has the form "1.1 NAME" or "HTTP/1.1 NAME (comment)".
      const auto space = element.find_first_of(" \t");
      if (space == element.npos) return;
      const std::string_view by = trim(element.substr(space));
      is_own = is_own || same_text(by.substr(0, by.find_first_of(" \t(")), own);
    });
    if (is_own) return refusal{508, "loop", "the request has come through this gateway before", std::nullopt, true};
  }
  return std::nullopt;
}

}  // namespace canigo::gateway
