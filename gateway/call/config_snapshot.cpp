#include "gateway/call/config_snapshot.hpp"

#include "canigo/error.hpp"

#include "gateway/config/report.hpp"
#include "gateway/policy/head_writer.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace canigo::gateway {
namespace {

/// Makes the TLS context of a listener from its certificate files. `field`: the name of the listener's table `tls`, for
/// errors.
std::unique_ptr<net::ssl::context> make_certificate(const tls_files& f, const std::string& field) {
  auto tls = std::make_unique<net::ssl::context>(net::ssl::context::tls_server);
  tls->set_options(net::ssl::context::default_workarounds | net::ssl::context::no_tlsv1 |
                   net::ssl::context::no_tlsv1_1);
  const auto check = [&](const error_code& error, const char* key) {
    if (error) throw config_mistake{field + key, ": " + error.message()};
  };
  error_code error;
  tls->use_certificate_chain_file(f.cert, error);
  check(error, ".cert");
  tls->use_private_key_file(f.key, net::ssl::context::pem, error);
  check(error, ".key");
  if (f.client_ca.empty()) return tls;
  tls->load_verify_file(f.client_ca, error);
  check(error, ".client_ca");
  tls->set_verify_mode(net::ssl::verify_peer);
  // Without a session id context, OpenSSL refuses to resume the session of a client that has a certificate.
  constexpr std::string_view sessions = "canigo-gateway";
  ::SSL_CTX_set_session_id_context(tls->native_handle(), reinterpret_cast<const unsigned char*>(sessions.data()),
                                   sessions.size());
  return tls;
}

}  // namespace

std::vector<std::unique_ptr<net::ssl::context>> config_snapshot::make_certificates(const config& c) {
  std::vector<std::unique_ptr<net::ssl::context>> made;
  for (std::size_t i = 0; i < c.listeners.size(); ++i) {
    const auto& files = c.listeners[i].tls;
    made.push_back(files ? make_certificate(*files, fmt::format("listen[{}].tls", i)) : nullptr);
  }
  return made;
}

config_snapshot::config_snapshot(config c, const std::vector<net::any_io_executor>& loops, redis::client* store,
                                 const config_snapshot* before)
    : settings{std::move(c)},
      routes{settings.upstreams},
      identities{settings.tenants},
      keep_alive_line{gateway::keep_alive_line(settings.time.keep_alive)},
      trust_{std::make_unique<net::ssl::context>(net::ssl::context::tls_client)},
      certificates_{make_certificates(settings)} {
  trust_->set_default_verify_paths();
  for (const upstream& u : settings.upstreams) {
    const auto old = before == nullptr ? nullptr : before->queue_of(u.name);
    queues_.push_back(std::make_shared<upstream_queue>(settings, u, loops, store, old.get()));
  }
  if (settings.forward) hosts_ = std::make_unique<forwarded_hosts>(settings, loops);
}

void config_snapshot::take_over(const config_snapshot& before) {
  for (const auto& q : queues_) {
    if (const auto old = before.queue_of(q->settings().name)) q->take_over(*old);
  }
  if (hosts_ && before.hosts_) hosts_->take_over(*before.hosts_);
}

void config_snapshot::end_take_over() {
  for (const auto& q : queues_) q->end_take_over();
  if (hosts_) hosts_->end_take_over();
}

std::optional<std::size_t> config_snapshot::tenant_of(std::string_view name) const noexcept {
  const auto found = std::ranges::find(settings.tenants, name, &tenant::name);
  if (found == settings.tenants.end()) return std::nullopt;
  return static_cast<std::size_t>(found - settings.tenants.begin());
}

std::shared_ptr<upstream_queue> config_snapshot::queue_of(std::string_view upstream) const {
  const auto found = std::ranges::find_if(queues_, [&](const auto& q) { return q->settings().name == upstream; });
  if (found != queues_.end()) return *found;
  return hosts_ ? hosts_->known(upstream) : nullptr;
}

}  // namespace canigo::gateway
