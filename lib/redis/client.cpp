#include "canigo/redis/client.hpp"

#include "engine.hpp"

#include <asio/use_awaitable.hpp>

#include <utility>

namespace canigo::redis {

client::client(const net::any_io_executor& executor, std::string_view url, const client_options& options)
    : engine_{detail::engine::open(executor, url, options)} {}

client::client(const net::any_io_executor& executor, std::string_view url) : client{executor, url, client_options{}} {}

client::~client() { engine_->close(); }

net::awaitable<reply> client::run(command c) {
  using detail::answer;
  auto pending = net::async_initiate<const net::use_awaitable_t<>, void(answer)>(
      detail::start_call<detail::answered_call>{engine_}, net::use_awaitable, c);
  answer a = co_await std::move(pending);
  if (a.error && !a.what.text().empty()) throw std::system_error{a.error, a.what.text()};
  if (a.error) throw std::system_error{a.error};
  co_return std::move(a.what);
}

client_stats client::stats() const { return engine_->stats(); }

void client::stop() noexcept { engine_->close(); }

net::any_io_executor client::get_executor() const { return engine_->executor(); }

}  // namespace canigo::redis
