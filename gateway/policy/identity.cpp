#include "gateway/policy/identity.hpp"

#include "gateway/policy/fields.hpp"
#include "gateway/wire/host_name.hpp"
#include "gateway/wire/text.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>
#include <cstring>

namespace canigo::gateway {
namespace {

static_assert(SHA256_DIGEST_LENGTH == std::tuple_size_v<key_digest>);

key_digest digest_of(std::string_view key) noexcept {
  key_digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

/// Returns the first bytes of a key's digest, for use in a hash table. These bytes reveal nothing about the key. So the
/// duration of a look-up in the table may depend on them.
std::uint64_t first_bytes(const key_digest& digest) noexcept {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, digest.data(), sizeof bytes);
  return bytes;
}

/// Returns the credentials in a header value that begins with this scheme, such as "Bearer"; nothing if the value has
/// another scheme.
std::optional<std::string_view> of_scheme(std::string_view value, std::string_view scheme) noexcept {
  const auto space = value.find(' ');
  if (space == value.npos || !same_text(value.substr(0, space), scheme)) return std::nullopt;
  return trim(value.substr(space));
}

/// Whether the authority (host and port) can only name this machine. That is so if its host is a loopback address, or a
/// name that no web site can have, such as "localhost".
bool is_of_this_machine(std::string_view authority) {
  const auto at = parse_host_and_port(authority);
  if (!at) return false;
  const std::string& host = at->host.text;
  if (at->host.what == host_name::kind::v4) return host.starts_with("127.");
  if (at->host.what == host_name::kind::v6) return host == "::1";
  return host.find('.') == host.npos || host.ends_with(".localhost");
}

/// Whether a web page of another site, in a browser on this machine, may have sent the request. Browsers name the site
/// of the page in Origin and Sec-Fetch-Site. In a DNS rebinding attack, the site's name resolves to this machine, and
/// only the field Host shows the site.
bool may_be_a_page(const message_head& head) {
  const auto site = value_of(head, "Sec-Fetch-Site");
  if (site && *site != "none" && *site != "same-origin") return true;
  if (const auto page = value_of(head, "Origin")) {
    const auto scheme = page->find("://");
    if (scheme == page->npos || !is_of_this_machine(page->substr(scheme + 3))) return true;
  }
  return !is_of_this_machine(value_of(head, "Host").value_or(""));
}

int base64_value(char c) noexcept {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  std::string bytes;
  std::uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    n += 6;
    if (n < 8) continue;
    n -= 8;
    bytes.push_back(static_cast<char>(bits >> n & 0xff));
  }
  // Refuses a text whose unused last bits are not zero. Otherwise several texts would stand for the same key.
  if ((bits & ((1U << n) - 1)) != 0) return std::nullopt;
  return bytes;
}

std::optional<std::string> key_of_authorization(std::string_view value) {
  value = trim(value);
  if (const auto key = of_scheme(value, "Bearer")) return std::string{*key};
  const auto basic = of_scheme(value, "Basic");
  if (!basic) return std::nullopt;
  const auto pair = decode_base64(*basic);
  if (!pair) return std::nullopt;
  const auto colon = pair->find(':');
  if (colon == pair->npos) return std::nullopt;
  return colon + 1 == pair->size() ? pair->substr(0, colon) : pair->substr(colon + 1);
}

identity_table::identity_table(const std::vector<tenant>& tenants) {
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    const tenant& n = tenants[i];
    for (const key_digest& digest : n.keys) keys_.emplace(first_bytes(digest), key_of{digest, i});
    if (!n.subject.empty()) subjects_.emplace(n.subject, i);
    if (n.uid) uids_.emplace(*n.uid, i);
    names_.emplace(n.name, i);
  }
}

std::optional<std::size_t> identity_table::by_key(std::string_view key) const {
  if (key.empty()) return std::nullopt;
  const key_digest digest = digest_of(key);
  std::optional<std::size_t> found;
  const auto [first, last] = keys_.equal_range(first_bytes(digest));
  for (auto k = first; k != last; ++k)
    if (CRYPTO_memcmp(k->second.digest.data(), digest.data(), digest.size()) == 0) found = k->second.tenant;
  return found;
}

/// Finds the tenant whose key is the Bearer token in Authorization; returns nothing if there is no such tenant.
std::optional<std::size_t> identity_table::by_bearer(const message_head& head) const {
  if (keys_.empty() || count_of(head, "Authorization") != 1) return std::nullopt;
  const auto bearer = of_scheme(trim(*value_of(head, "Authorization")), "Bearer");
  return bearer ? by_key(*bearer) : std::nullopt;
}

identification identity_table::find(const message_head& head, const client_facts& client, std::string_view replaced,
                                    bool is_proxy) const {
  const auto refuse = [&](std::string why) {
    return identification{std::nullopt, refusal{is_proxy ? 407 : 401, "unauthorized", std::move(why)}};
  };
  const std::optional<std::size_t> by_authorization = by_bearer(head);
  if (by_authorization && replaced.empty() && !is_proxy)
    return refuse("the key of a tenant in Authorization would go to the upstream; it goes into X-Canigo-Key");
  for (const std::string& name : client.certificate_names)
    if (const auto found = subjects_.find(name); found != subjects_.end()) return {found->second, std::nullopt};

  std::size_t keys = 0;
  std::optional<std::string> key;
  for (const field& f : head.fields) {
    const bool is_plain = same_text(f.name, "X-Canigo-Key");
    if (!is_plain && !same_text(f.name, "Proxy-Authorization")) continue;
    ++keys;
    key = is_plain ? std::string{trim(f.value)} : key_of_authorization(f.value);
  }
  if (keys > 1) return refuse("there is more than one key in X-Canigo-Key and Proxy-Authorization");
  if (keys == 1) {
    const auto found = key ? by_key(*key) : std::nullopt;
    if (!found) return refuse("the key in X-Canigo-Key or Proxy-Authorization is no tenant's");
    return {found, std::nullopt};
  }
  if (!replaced.empty()) {
    if (by_authorization) return {by_authorization, std::nullopt};
    if (count_of(head, replaced) == 1)
      if (const auto found = by_key(trim(*value_of(head, replaced)))) return {found, std::nullopt};
  }

  if (client.uid)
    if (const auto found = uids_.find(*client.uid); found != uids_.end()) return {found->second, std::nullopt};
  if (const auto found = names_.find(client.anonymous); found != names_.end()) {
    if (!is_proxy && !client.uid && may_be_a_page(head))
      return refuse("without a key it is not served: it may come from a page of another site in a browser");
    return {found->second, std::nullopt};
  }
  if (is_proxy)
    return refuse(
        "there is no key of a tenant; it is the password for the proxy, in Proxy-Authorization (Basic or Bearer)");
  if (same_text(replaced, "Authorization"))
    return refuse("there is no key of a tenant; it goes into X-Canigo-Key, or into Authorization as a Bearer token");
  if (!replaced.empty()) {
    return refuse("there is no key of a tenant; it goes into X-Canigo-Key, into " + std::string{replaced} +
                  ", or into Authorization as a Bearer token");
  }
  return refuse("there is no key of a tenant; it goes into X-Canigo-Key; Authorization is the upstream's here");
}

}  // namespace canigo::gateway
