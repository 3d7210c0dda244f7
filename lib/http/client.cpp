#include "canigo/http/client.hpp"

#include "engine.hpp"

#include <utility>

namespace canigo::http {

client::client(const net::any_io_executor& executor, const client_options& options)
    : engine_{detail::engine::open(executor, options)} {}

client::~client() { engine_->close(); }

net::awaitable<response> client::send(request r) {
  return canigo::detail::await_operation<detail::transfer>(engine_, std::move(r));
}

client_stats client::stats() const { return engine_->stats(); }

void client::stop() noexcept { engine_->close(); }

net::any_io_executor client::get_executor() const { return engine_->executor(); }

}  // namespace canigo::http
