#include "canigo/redis/endpoint.hpp"

#include "canigo/error.hpp"

#include <charconv>
#include <optional>

namespace canigo::redis {
namespace {

constexpr std::string_view schemes = "redis://, rediss://, unix:, redis+sentinel://";

[[noreturn]] void refuse(std::string_view part, std::string_view value, std::string_view allowed) {
  canigo::detail::throw_invalid(std::string{"redis url: "}.append(part), value, allowed);
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

int hex(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string decoded(std::string_view text, std::string_view part) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex(text[i + 1]) : -1;
    const int low = high >= 0 ? hex(text[i + 2]) : -1;
    if (low < 0) refuse(part, "(not shown)", "% and two hexadecimal digits, or plain text");
    plain += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return plain;
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number n{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::uint32_t database(std::string_view text) {
  const auto n = number<std::uint32_t>(text);
  if (!n) refuse("database", text, "a number, 0 or more");
  return *n;
}

/// Removes "user:password@" from the front of `rest`, if it is there, and stores the user and the password in `e`.
void take_credentials(std::string_view& rest, endpoint& e) {
  const auto at = rest.substr(0, rest.find_first_of("/?#")).rfind('@');
  if (at == std::string_view::npos) return;
  const std::string_view both = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  const auto colon = both.find(':');
  // If the part before the '@' has no colon, all of it is the password, as in redis-cli.
  if (colon != std::string_view::npos) e.user = decoded(both.substr(0, colon), "user");
  e.password = decoded(colon != std::string_view::npos ? both.substr(colon + 1) : both, "password");
}

/// `rest` is the URL without the credentials that take_credentials() has found. Throws if `rest` still contains an '@',
/// because then the password may have an unescaped '/'. Without this check, another error message would show a part of
/// that password.
void refuse_stray_at(std::string_view rest) {
  if (rest.find('@') == std::string_view::npos) return;
  refuse("password", "(not shown)", "/, ? and # in a user or password as %2F, %3F and %23");
}

endpoint::address parse_address(std::string_view text, std::string_view port) {
  std::string_view host;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) refuse("host", text, "an IPv6 address in brackets, [::1]");
    host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  } else {
    host = text.substr(0, text.find(':'));
    text.remove_prefix(host.size());
  }
  if (host.empty()) refuse("host", host, "a name or an address");
  for (const char c : host) {
    if (c <= ' ' || c == 0x7f || c == '[' || c == ']') refuse("host", host, "a name or an address");
  }
  if (!text.empty()) {
    if (!take_prefix(text, ":")) refuse("host", text, "host:port");
    const auto n = number<std::uint16_t>(text);
    if (!n || *n == 0) refuse("port", text, "1 to 65535");
    port = text;
  }
  return {std::string{host}, std::string{port}};
}

}  // namespace

endpoint endpoint::parse(std::string_view url) {
  endpoint e;
  std::string_view rest = url;
  if (take_prefix(rest, "unix:")) {
    if (take_prefix(rest, "//")) take_credentials(rest, e);
    const auto query = rest.find('?');
    e.path = rest.substr(0, query);
    if (e.path.empty() || e.path.front() != '/') {
      refuse_stray_at(rest);
      refuse("path", e.path, "an absolute path");
    }
    if (e.path.find('\0') != std::string::npos) refuse("path", "(not shown)", "no character of value 0");
    if (e.path.size() > 107) refuse("path", e.path, "at most 107 bytes");
    if (query != std::string_view::npos) {
      rest.remove_prefix(query + 1);
      if (!take_prefix(rest, "db=")) refuse("query", rest, "db=N");
      e.database = redis::database(rest);
    }
    return e;
  }
  const bool sentinel = take_prefix(rest, "redis+sentinel://");
  e.tls = !sentinel && take_prefix(rest, "rediss://");
  if (!sentinel && !e.tls && !take_prefix(rest, "redis://")) {
    // The message shows only the scheme, because a URL of another kind may also contain a password.
    refuse("scheme", url.substr(0, std::min<std::size_t>(url.find(':'), 32)), schemes);
  }
  take_credentials(rest, e);
  refuse_stray_at(rest);
  if (const auto query = rest.find_first_of("?#"); query != std::string_view::npos) {
    refuse("query", rest.substr(query), "nothing after the database");
  }
  const auto slash = rest.find('/');
  std::string_view hosts = rest.substr(0, slash);
  std::string_view tail = slash == std::string_view::npos ? std::string_view{} : rest.substr(slash + 1);
  if (sentinel) {
    for (;;) {
      const auto comma = hosts.find(',');
      e.addresses.push_back(parse_address(hosts.substr(0, comma), "26379"));
      if (comma == std::string_view::npos) break;
      hosts.remove_prefix(comma + 1);
    }
    const auto next = tail.find('/');
    e.master = tail.substr(0, next);
    if (e.master.empty()) refuse("master", e.master, "the name that the sentinels know");
    tail = next == std::string_view::npos ? std::string_view{} : tail.substr(next + 1);
  } else {
    e.addresses.push_back(parse_address(hosts, "6379"));
  }
  if (!tail.empty()) e.database = redis::database(tail);
  return e;
}

std::string endpoint::to_string() const {
  if (!path.empty()) {
    // If the path begins with two slashes, the URL gets the longer prefix "unix://". With the prefix "unix:", parse()
    // would not count these two slashes as a part of the path. It could also take the text after the slashes as a user
    // name.
    const std::string start = path.starts_with("//") ? "unix://" : "unix:";
    return start + path + (database != 0 ? "?db=" + std::to_string(database) : "");
  }
  std::string text = !master.empty() ? "redis+sentinel://" : tls ? "rediss://" : "redis://";
  const char* separator = "";
  for (const auto& a : addresses) {
    const bool v6 = a.host.find(':') != std::string::npos;
    text.append(separator).append(v6 ? "[" : "").append(a.host).append(v6 ? "]:" : ":").append(a.port);
    separator = ",";
  }
  if (!master.empty()) text.append("/").append(master);
  return text + "/" + std::to_string(database);
}

}  // namespace canigo::redis
