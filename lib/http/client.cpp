#include "canigo/http/client.hpp"

#include "engine.hpp"

#include <asio/use_awaitable.hpp>

namespace canigo::http {

client::client(const net::any_io_executor& executor, const client_options& options)
    : engine_{detail::engine::open(executor, options)} {}

client::~client() { engine_->close(); }

net::awaitable<response> client::send(request r) {
  // Named, for the same reason that request is no aggregate.
  auto pending = async_send(std::move(r), net::use_awaitable);
  co_return co_await std::move(pending);
}

client_stats client::stats() const { return engine_->stats(); }

void client::stop() noexcept { engine_->close(); }

net::any_io_executor client::get_executor() const { return engine_->executor(); }

}  // namespace canigo::http
