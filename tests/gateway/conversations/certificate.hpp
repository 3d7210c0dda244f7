#pragma once

#include <openssl/ssl.h>

#include <filesystem>

namespace conversations {

/// A certificate of 127.0.0.1, which vouches for itself: of the upstreams, and of the gateway's listener.
class certificate {
 public:
  /// Writes cert.pem and key.pem there.
  explicit certificate(const std::filesystem::path& folder);
  ~certificate();
  certificate(const certificate&) = delete;
  certificate& operator=(const certificate&) = delete;

  SSL_CTX* of_server() const noexcept { return server_; }
  SSL_CTX* of_client() const noexcept { return client_; }

 private:
  SSL_CTX* server_;
  SSL_CTX* client_;
};

}  // namespace conversations
