#include "canigo/http/client.hpp"

#include "canigo/error.hpp"

#include "engine.hpp"
#include "lingering.hpp"
#include "request_check.hpp"
#include "text.hpp"

#include <asio/this_coro.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <sys/un.h>
#include <system_error>
#include <utility>

namespace canigo::http {
namespace {

/// Checks that the certificate options are consistent. curl reads the files themselves later.
void check_certificates(const client_options& o) {
  if (!o.ca_file.empty() && !o.ca_data.empty()) {
    canigo::detail::throw_invalid("client_options.ca_data", std::to_string(o.ca_data.size()) + " bytes",
                                  "none beside ca_file");
  }
  if (!o.cert_file.empty()) return;
  if (!o.key_file.empty())
    canigo::detail::throw_invalid("client_options.key_file", o.key_file, "none without cert_file");
  if (!o.key_password.empty()) {
    canigo::detail::throw_invalid("client_options.key_password", "(hidden)", "none without cert_file");
  }
}

void check_addresses(const client_options& o) {
  constexpr std::size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;
  if (o.unix_socket.size() > longest_path || o.unix_socket.find('\0') != std::string::npos) {
    canigo::detail::throw_invalid("client_options.unix_socket", o.unix_socket,
                                  "up to " + std::to_string(longest_path) + " bytes, none of them zero");
  }
  if (!o.unix_socket.empty() && o.proxy.value_or("") != "") {
    canigo::detail::throw_invalid("client_options.proxy", "(hidden)", "none beside unix_socket");
  }
  for (const known_address& known : o.known_addresses) {
    const auto fits = [](char c) {
      return detail::is_letter(c) || detail::is_digit(c) || c == '-' || c == '.' || c == '_';
    };
    if (known.host.empty() || known.host.front() == '-' || !std::ranges::all_of(known.host, fits)) {
      canigo::detail::throw_invalid("client_options.known_addresses: a host", known.host,
                                    "letters of ASCII, digits, and - . _");
    }
    if (known.port == 0) canigo::detail::throw_invalid("client_options.known_addresses: a port", 0, "1 to 65535");
  }
}

const client_options& checked(const client_options& o) {
  constexpr std::size_t most_connections = 65536;
  if (o.connections < 1 || o.connections > most_connections)
    canigo::detail::throw_invalid("client_options.connections", o.connections, "1 to 65536");
  if (o.connections_per_host < 1 || (o.connections_per_host > most_connections && o.connections_per_host != unlimited))
    canigo::detail::throw_invalid("client_options.connections_per_host", o.connections_per_host,
                                  "1 to 65536, or unlimited");
  if (o.connect_timeout <= duration::zero())
    canigo::detail::throw_invalid("client_options.connect_timeout", o.connect_timeout, "more than 0");
  if (o.timeout <= duration::zero()) canigo::detail::throw_invalid("client_options.timeout", o.timeout, "more than 0");
  if (o.max_redirects < 0 || o.max_redirects > 100)
    canigo::detail::throw_invalid("client_options.max_redirects", o.max_redirects, "0 to 100");
  if (!detail::is_field_value(o.user_agent)) {
    canigo::detail::throw_invalid("client_options.user_agent", o.user_agent, "no line break and no zero byte");
  }
  if (o.version < http_version::negotiated || o.version > http_version::http2) {
    canigo::detail::throw_invalid("client_options.version", static_cast<int>(o.version), "negotiated, http1, http2");
  }
  check_certificates(o);
  check_addresses(o);
  return o;
}

/// Whether an environment variable that curl reads names a proxy.
bool environment_has_proxy() noexcept {
  constexpr std::array names{"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
  return std::ranges::any_of(names, [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  });
}

/// If `o` names no proxy and the environment has none now, sets the options so that curl uses none. Otherwise curl
/// would read the environment again for each request.
client_options with_known_proxy(client_options o) {
  if (!o.proxy && (!environment_has_proxy() || !o.unix_socket.empty())) o.proxy = "";
  if (o.allow_address && o.proxy != "") {
    // The value is not shown, because the URL of a proxy may contain a password.
    canigo::detail::throw_invalid("client_options.proxy", o.proxy ? "(hidden)" : "that of the environment",
                                  "empty with allow_address, as a proxy resolves names itself");
  }
  return o;
}

net::awaitable<response> refuse(detail::request_problem p) {
  canigo::detail::throw_invalid(p.field, p.value, p.allowed);
  co_return response{};
}

net::awaitable<detail::ended_transfer> run_lingering(std::shared_ptr<detail::engine> engine, request r) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  const auto l = std::make_shared<detail::lingering>(std::move(engine), std::move(r), executor);
  co_return co_await canigo::detail::await_operation<detail::lingering_call>(l);
}

net::awaitable<response> response_of(net::awaitable<detail::ended_transfer> under_way) {
  detail::ended_transfer e = co_await std::move(under_way);
  if (!e.error) co_return std::move(e.response);
  if (e.response.problem.empty()) throw std::system_error{e.error};
  throw canigo::detail::error_at{e.error, e.response.problem};
}

}  // namespace

client::client(const net::any_io_executor& executor, const client_options& options)
    : engine_{detail::engine::open(executor, with_known_proxy(checked(options)))} {}

client::~client() { engine_->close(); }

net::awaitable<response> client::send(request r) {
  if (auto problem = detail::problem_of(r)) return refuse(std::move(*problem));
  return response_of(run(std::move(r)));
}

net::awaitable<detail::ended_transfer> client::run(request r) {
  if (r.linger > duration::zero()) return run_lingering(engine_, std::move(r));
  return canigo::detail::await_operation<detail::awaited_transfer>(engine_, std::move(r));
}

net::awaitable<exchange> client::open(request r) { return exchange::open(engine_, std::move(r)); }

upload client::start_upload(request r, std::optional<std::uint64_t> length) {
  return upload{engine_, std::move(r), length};
}

client_stats client::stats() const { return engine_->stats(); }

std::size_t client::connections_per_host() const noexcept { return engine_->most_per_host(); }

void client::stop() noexcept { engine_->close(); }

net::any_io_executor client::get_executor() const { return engine_->executor(); }

}  // namespace canigo::http
