#include "gateway/upstream/link.hpp"

#include "canigo/cancel_after.hpp"
#include "canigo/http/public_address.hpp"

#include <asio/ip/tcp.hpp>
#include <asio/redirect_error.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

namespace canigo::gateway {
namespace {

using tcp = net::ip::tcp;
using clock = std::chrono::steady_clock;

/// Returns `open` if a connection to this address is allowed; otherwise the reason why it is not.
link_result judge(const upstream& u, const own_places& own, const tcp::endpoint& to) {
  if (own.contains(to)) return link_result::own;
  const bool is_allowed = u.url.is_address || u.private_addresses || http::is_public(to.address());
  return is_allowed ? link_result::open : link_result::forbidden;
}

/// Whether the error means that this process lacks a file descriptor or memory. Such an error is not the upstream's
/// fault.
bool tells_of_lack(const error_code& error) {
  return error == net::error::no_descriptors || error == net::error::no_memory ||
         error == net::error::no_buffer_space || error == error_code{ENFILE, std::system_category()};
}

}  // namespace

void link::cancel() noexcept {
  error_code ignored;
  is_called_off = true;
  if (resolving != nullptr) resolving->cancel();
  if (connecting != nullptr) connecting->cancel(ignored);
  if (stream) stream->cancel();
}

net::awaitable<link_result> open_link(link& l, const upstream& u, bool with_tls, const surroundings& around,
                                      duration& took) {
  const auto start = clock::now();
  const auto left = [&] { return std::max(u.timeout.connect - (clock::now() - start), duration{1}); };
  l.close();
  l.failure.clear();
  l.lacks_descriptor = false;
  error_code error;
  const std::vector<tcp::endpoint> found =
      co_await around.names.find(u.url.host, u.url.port, left(), l.resolving, error);
  link_result result = error == errc::timed_out ? link_result::timed_out : link_result::unreachable;
  if (error) l.failure = "its name: " + error.message();
  l.lacks_descriptor = tells_of_lack(error);
  for (const tcp::endpoint& e : found) {
    if (l.is_called_off) break;  // a step reports no error if cancel() was called after the step had completed
    if (const link_result judged = judge(u, around.own, e); judged != link_result::open) {
      if (result == link_result::unreachable) result = judged;
      continue;
    }
    stream_socket s{co_await net::this_coro::executor};
    s.open(e.protocol(), error);
    if (!error && s.native_handle() >= around.most_files) error = net::error::no_descriptors;
    if (!error) {
      l.connecting = &s;
      co_await s.async_connect(e, canigo::cancel_after(left(), net::redirect_error(net::use_awaitable, error)));
      l.connecting = nullptr;
    }
    if (!error && !l.is_called_off) {
      error_code ignored;
      s.set_option(tcp::no_delay{true}, ignored);
      l.stream = std::make_unique<byte_stream>(std::move(s));
      l.is_tls = with_tls;
      if (with_tls) co_await l.stream->secure_as_client(around.trust, u.url.host, u.url.is_address, left(), error);
      if (!error) {
        took = clock::now() - start;
        co_return link_result::open;
      }
      l.failure = "TLS: " + l.stream->why_not_secured(error);
      l.close();
    } else if (error) {
      l.failure = error.message();
      l.lacks_descriptor = tells_of_lack(error);
    }
    result = error == errc::timed_out ? link_result::timed_out : link_result::unreachable;
    if (result == link_result::timed_out || error == net::error::operation_aborted) break;
  }
  took = clock::now() - start;
  co_return result;
}

}  // namespace canigo::gateway
