#include "canigo/http/client.hpp"

#include "canigo/error.hpp"

#include "engine.hpp"
#include "request_check.hpp"

#include <utility>

namespace canigo::http {
namespace {

net::awaitable<response> refuse(detail::request_problem p) {
  canigo::detail::throw_invalid(p.field, p.value, p.allowed);
  co_return response{};
}

}  // namespace

client::client(const net::any_io_executor& executor, const client_options& options)
    : engine_{detail::engine::open(executor, options)} {}

client::~client() { engine_->close(); }

net::awaitable<response> client::send(request r) {
  if (auto problem = detail::problem_of(r)) return refuse(std::move(*problem));
  return canigo::detail::await_operation<detail::transfer>(engine_, std::move(r));
}

client_stats client::stats() const { return engine_->stats(); }

void client::stop() noexcept { engine_->close(); }

net::any_io_executor client::get_executor() const { return engine_->executor(); }

}  // namespace canigo::http
