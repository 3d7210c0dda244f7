#include "canigo/redis/client.hpp"

#include "cause.hpp"
#include "engine.hpp"
#include "slots.hpp"

#include <asio/use_awaitable.hpp>

#include <utility>

namespace canigo::redis {

client::client(const net::any_io_executor& executor, std::string_view url, const client_options& options)
    : engine_{detail::engine::open(executor, url, options)} {}

client::client(const net::any_io_executor& executor, std::string_view url) : client{executor, url, client_options{}} {}

client::~client() { engine_->close(); }

net::awaitable<reply> client::run(command c) {
  using detail::answer;
  const auto home = engine_;  // keeps the engine alive, because the client may be destroyed during this operation
  const auto slot = detail::slot_of(c);
  auto at = slot ? home->cluster().of(*slot) : home;
  answer a;
  for (int redirections = 0;; ++redirections) {
    auto pending = net::async_initiate<const net::use_awaitable_t<>, void(answer)>(
        detail::start_call<detail::answered_call>{at}, net::use_awaitable, c);
    a = co_await std::move(pending);
    if (detail::is_of_the_node(a.error)) home->cluster().failed(*at);
    if (a.error != error::moved || redirections == detail::most_redirections) break;
    auto next = home->cluster().follow(*at, a.what.text());
    if (next.where == nullptr) break;
    at = std::move(next.where);
    c.set_asks_first(next.is_once);
  }
  if (a.error && !a.what.text().empty()) throw std::system_error{a.error, a.what.text()};
  if (a.error) throw std::system_error{a.error};
  co_return std::move(a.what);
}

client_stats client::stats() const { return engine_->stats(); }

void client::stop() noexcept { engine_->close(); }

net::any_io_executor client::get_executor() const { return engine_->executor(); }

}  // namespace canigo::redis
