#pragma once

#include "loop.hpp"
#include "model.hpp"

#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <vector>

namespace conversations {

/// The upstreams: each listens on a port of its own, and does with each request what its plan says.
class upstream_servers {
 public:
  /// Fills in the ports.
  upstream_servers(loop& l, model& m, places& p, SSL_CTX* security);
  ~upstream_servers();
  upstream_servers(const upstream_servers&) = delete;
  upstream_servers& operator=(const upstream_servers&) = delete;

 private:
  loop& loop_;
  std::vector<int> listeners_;
};

}  // namespace conversations
