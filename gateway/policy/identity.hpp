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

/// The facts that a connection knows of its client.
struct client_facts {
  std::span<const std::string> certificate_names;  ///< subject and alternative names of a certificate that was verified
  std::optional<std::uint32_t> uid;                ///< the user of the peer of a unix socket
  std::string_view anonymous;                      ///< the listener's tenant for clients without credentials
};

/// The tenant of a request.
struct identification {
  std::optional<std::size_t> tenant;  ///< an index into config::tenants
  std::optional<refusal> refused;     ///< why there is no tenant: 401, or 407 for a proxy
};

/// Finds tenants by their credentials.
class identity_table {
 public:
  explicit identity_table(const std::vector<tenant>& tenants);

  /// Finds the tenant of a request. The first that matches: the certificate; a key in X-Canigo-Key or in
  /// Proxy-Authorization; the uid; the listener's anonymous tenant. `replaced` names the field of the credential that
  /// the gateway has for the upstream; it is empty if the client's own credential goes out. If there is one, a key is
  /// looked for in Authorization as a Bearer token and in that field, too, before the uid.
  ///
  /// A key in X-Canigo-Key or Proxy-Authorization is meant for the gateway: if it is no tenant's, the request is
  /// refused. A key in one of the other fields may be a client's dummy, and counts only if it is a tenant's.
  /// Proxy-Authorization has "Bearer KEY", or "Basic" with the key as the password, or as the user if there is no
  /// password.
  ///
  /// A tenant's key in Authorization, where the client's own credential goes out, would reach the upstream. So the
  /// request is refused.
  ///
  /// A page of another site in a browser must not spend the limits of the anonymous tenant. So a request that may come
  /// from such a page needs a key, unless it comes over a unix socket, or to a proxy.
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

  std::unordered_multimap<std::uint64_t, key_of> keys_;  // by the first bytes of the digest
  std::map<std::string, std::size_t, std::less<>> subjects_;
  std::map<std::uint32_t, std::size_t> uids_;
  std::map<std::string, std::size_t, std::less<>> names_;
};

/// The key in a value of Proxy-Authorization; nothing if it has another form.
std::optional<std::string> key_of_authorization(std::string_view value);

/// Decodes a base64 text; nothing if the text is not base64, or is not padded.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace canigo::gateway
