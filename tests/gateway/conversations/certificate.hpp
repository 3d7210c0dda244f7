#pragma once

#include <openssl/ssl.h>

#include <filesystem>

namespace conversations {

/// A self-signed certificate for 127.0.0.1, which the upstreams and the gateway's listener use.
class certificate {
 public:
  /// Writes cert.pem and key.pem to the folder.
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
