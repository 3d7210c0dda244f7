#include "gateway/upstream/link.hpp"

#include "canigo/cancel_after.hpp"
#include "canigo/http/public_address.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace canigo::gateway {
namespace {

using tcp = net::ip::tcp;
using clock = std::chrono::steady_clock;

net::awaitable<std::vector<tcp::endpoint>> addresses_of(link& l, const origin& o, duration limit, error_code& error) {
  std::vector<tcp::endpoint> found;
  if (const auto literal = net::ip::make_address(o.host, error); !error) {
    found.emplace_back(literal, o.port);
    co_return found;
  }
  error = {};
  tcp::resolver resolver{co_await net::this_coro::executor};
  const std::string port = std::to_string(o.port);
  l.resolving = &resolver;
  const auto results =
      co_await resolver.async_resolve(o.host, port, tcp::resolver::numeric_service,
                                      canigo::cancel_after(limit, net::redirect_error(net::use_awaitable, error)));
  l.resolving = nullptr;
  for (const auto& r : results) found.push_back(r.endpoint());
  co_return found;
}

}  // namespace

void link::cancel() noexcept {
  error_code ignored;
  if (resolving != nullptr) resolving->cancel();
  if (connecting != nullptr) connecting->cancel(ignored);
  if (stream) stream->cancel();
}

net::awaitable<link_result> open_link(link& l, const upstream& u, net::ssl::context& trust, duration& took) {
  const auto start = clock::now();
  const auto left = [&] { return std::max(u.timeout.connect - (clock::now() - start), duration{1}); };
  l.close();
  error_code error;
  const std::vector<tcp::endpoint> found = co_await addresses_of(l, u.url, left(), error);
  link_result result = error == errc::timed_out ? link_result::timed_out : link_result::unreachable;
  for (const tcp::endpoint& e : found) {
    if (!u.url.is_address && !u.private_addresses && !http::is_public(e.address())) {
      if (result == link_result::unreachable) result = link_result::forbidden;
      continue;
    }
    stream_socket s{co_await net::this_coro::executor};
    l.connecting = &s;
    co_await s.async_connect(e, canigo::cancel_after(left(), net::redirect_error(net::use_awaitable, error)));
    l.connecting = nullptr;
    if (!error) {
      error_code ignored;
      s.set_option(tcp::no_delay{true}, ignored);
      l.stream = std::make_unique<byte_stream>(std::move(s));
      if (u.url.is_tls) co_await l.stream->secure_as_client(trust, u.url.host, u.url.is_address, left(), error);
      if (!error) {
        took = clock::now() - start;
        co_return link_result::open;
      }
      l.close();
    }
    result = error == errc::timed_out ? link_result::timed_out : link_result::unreachable;
    if (result == link_result::timed_out || error == net::error::operation_aborted) break;
  }
  took = clock::now() - start;
  co_return result;
}

}  // namespace canigo::gateway
