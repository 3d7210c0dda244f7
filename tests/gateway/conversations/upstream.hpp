#pragma once

#include "loop.hpp"
#include "model.hpp"

#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <vector>

namespace conversations {

/// The upstream servers. Each listens on its own port, and treats each request as the request's plan says.
class upstream_servers {
 public:
  /// Starts the upstreams, and stores their ports in `p`.
  upstream_servers(loop& l, model& m, places& p, SSL_CTX* security);
  ~upstream_servers();
  upstream_servers(const upstream_servers&) = delete;
  upstream_servers& operator=(const upstream_servers&) = delete;

 private:
  loop& loop_;
  std::vector<int> listeners_;
};

}  // namespace conversations
