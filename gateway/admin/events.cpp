#include "gateway/admin/events.hpp"

#include "gateway/admin/admin_session.hpp"
#include "gateway/call/answer.hpp"
#include "gateway/process/service.hpp"

#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

// g++ 12 may destroy a temporary of a co_await expression twice. So this file has no co_await expression with a
// temporary that needs a destructor.
namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

constexpr duration between = 1s;
constexpr duration longest_stall = 5s;

net::const_buffer text(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace

net::awaitable<void> send_events(service& s, admin_session& session, byte_stream& client, const bool& has_left,
                                 std::function<bool()> may_listen) {
  const counted_place place{session.listeners, admin_session::most_listeners};
  error_code error;
  const std::string head = place ? page_head(200, "text/event-stream", "Connection: close\r\n")
                                 : page(503, "text/plain; charset=utf-8", "too many listen\n", true, false);
  std::array first{text(head)};
  co_await client.write(first, longest_stall, error);
  if (!place) co_return;
  net::steady_timer tick{co_await net::this_coro::executor};
  while (!error && !has_left && may_listen()) {
    auto asking = session.recent_state(s);
    const std::shared_ptr<const std::string> state = co_await std::move(asking);
    std::array pieces{text("data: "), text(*state), text("\n\n")};
    co_await client.write(pieces, longest_stall, error);
    if (error) break;
    tick.expires_after(between);
    co_await tick.async_wait(net::redirect_error(net::use_awaitable, error));
    if (!client.is_quiet()) break;  // the client has disconnected, or has sent something
  }
}

}  // namespace canigo::gateway
