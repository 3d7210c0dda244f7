// URLs of Redis and its sentinels: what is accepted prints as a URL of the same place, and no message and no printed
// URL shows the password, whatever stands around it.

#include "canigo/error.hpp"
#include "canigo/redis/endpoint.hpp"

#include "target.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

using canigo::redis::endpoint;

namespace {

constexpr std::string_view secret = "hunter2";

std::optional<endpoint> parse(std::string_view url) {
  try {
    return endpoint::parse(url);
  } catch (const std::system_error& e) {
    fuzz::require(e.code() == canigo::errc::invalid_argument, "a refusal is errc::invalid_argument");
    const std::string_view what = e.what();
    fuzz::require(what.starts_with("redis url: "), "a refusal says which part");
    fuzz::require(what.find(secret) == what.npos, "a refusal does not show the password");
    return std::nullopt;
  }
}

bool same_place(const endpoint& a, const endpoint& b) {
  const auto same = [](const endpoint::address& x, const endpoint::address& y) {
    return x.host == y.host && x.port == y.port;
  };
  return std::ranges::equal(a.addresses, b.addresses, same) && a.path == b.path && a.master == b.master &&
         a.database == b.database && a.tls == b.tls;
}

void check(const endpoint& e) {
  fuzz::require(e.path.empty() != e.addresses.empty(), "a socket or addresses");
  fuzz::require(e.path.empty() || (e.path[0] == '/' && e.path.size() <= 107), "a path fits into a socket's address");
  fuzz::require(e.path.find('\0') == e.path.npos, "a path is all of a path");
  fuzz::require(e.addresses.size() < 2 || !e.master.empty(), "several addresses are sentinels");
  for (const auto& a : e.addresses) {
    fuzz::require(!a.host.empty() && a.host.find('\0') == a.host.npos, "a host has a name");
    fuzz::require(!a.port.empty() && std::stoul(a.port) - 1 < 65535, "1 to 65535");
  }
  const std::string shown = e.to_string();
  const auto again = parse(shown);
  fuzz::require(again && same_place(e, *again), "the printed URL leads to the same place");
  fuzz::require(again->user.empty() && again->password.empty(), "the printed URL is nobody's");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::input{data, size}.text();
  if (text.find(secret) != text.npos) return 0;  // not as a password
  if (const auto e = parse(text)) check(*e);
  // The same with a password that has the first bytes of the rest before and after it.
  const auto slashes = text.find("//");
  if (slashes == text.npos || text.find(':') + 1 != slashes) return 0;
  const std::string_view rest = text.substr(slashes + 2);
  // After an @ it may as well be a path, for whoever reads it.
  const std::size_t most = std::min<std::size_t>(rest.find('@'), std::min<std::size_t>(rest.size(), 4));
  for (std::size_t n = 0; n <= most; ++n) {
    const std::string url = std::string{text.substr(0, slashes + 2)}
                                .append("joe:")
                                .append(rest.substr(0, n))
                                .append(secret)
                                .append(rest.substr(0, n))
                                .append("@")
                                .append(rest);
    if (const auto e = parse(url)) {
      check(*e);
      fuzz::require(e->to_string().find(secret) == std::string::npos, "a printed URL does not show the password");
    }
  }
  return 0;
}
