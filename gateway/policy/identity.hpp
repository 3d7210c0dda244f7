#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/wire/message.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace canigo::gateway {

/// The facts about a client that are known from its connection.
struct client_facts {
  /// The subject and the alternative names of the client's verified certificate.
  std::span<const std::string> certificate_names;
  std::optional<std::uint32_t> uid;  ///< the user id of the process at the other end of a unix socket
  /// the tenant that clients of the listener have if they send no credential; may be empty
  std::string_view anonymous;
};

/// The result of identification: the tenant of a request, or a refusal.
struct identification {
  std::optional<std::size_t> tenant;  ///< the index of the tenant in config::tenants
  std::optional<refusal> refused;     ///< the answer if there is no tenant: 401, or 407 from a proxy
};

/// Finds the tenant of a request by the client's credential.
class identity_table {
 public:
  explicit identity_table(const std::vector<tenant>& tenants);

  /// Finds the tenant of a request. The first of these that matches decides: the certificate; a key in X-Canigo-Key or
  /// in Proxy-Authorization; the uid; the listener's anonymous tenant.
  ///
  /// `replaced` names the field into which the gateway puts its own credential for the upstream. It is empty if the
  /// client's credential is forwarded. If it is not empty, a key may also be a Bearer token in Authorization, or be in
  /// the field `replaced`. Such a key is checked before the uid.
  ///
  /// A key in X-Canigo-Key or Proxy-Authorization is meant for the gateway: if no tenant has this key, the request is
  /// refused. A key in one of the other fields may be a placeholder, so it is ignored if no tenant has it.
  /// Proxy-Authorization contains "Bearer KEY", or "Basic" with the key as the password, or as the user if there is no
  /// password.
  ///
  /// If the client's own credential is forwarded, a tenant's key in Authorization would reach the upstream. So such a
  /// request is refused, unless `is_proxy` is true.
  ///
  /// A web page in a browser must not use up the limits of the anonymous tenant. So a request that may come from a web
  /// page needs a key, unless it comes over a unix socket or to a proxy.
  ///
  /// Keys are compared by their SHA-256, in constant time.
  identification find(const message_head& head, const client_facts& client, std::string_view replaced,
                      bool is_proxy) const;

 private:
  struct key_of {
    key_digest digest;
    std::size_t tenant;
  };

  std::optional<std::size_t> by_key(std::string_view key) const;
  std::optional<std::size_t> by_bearer(const message_head& head) const;

  std::unordered_multimap<std::uint64_t, key_of> keys_;  // the keys of all tenants, by the first bytes of their digests
  std::map<std::string, std::size_t, std::less<>> subjects_;
  std::map<std::uint32_t, std::size_t> uids_;
  std::map<std::string, std::size_t, std::less<>> names_;
};

/// Returns the key in a value of Proxy-Authorization; nothing if the value contains no key.
std::optional<std::string> key_of_authorization(std::string_view value);

/// Decodes a base64 text. Returns nothing if the text is not base64, or if its padding is missing.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace canigo::gateway
