#include "canigo/http/exchange.hpp"

#include "canigo/detail/context/initiation.hpp"
#include "canigo/error.hpp"

#include "request_check.hpp"
#include "stream.hpp"

#include <memory>
#include <system_error>
#include <utility>

namespace canigo::http {

exchange& exchange::operator=(exchange&& other) noexcept {
  if (this != &other) {
    const exchange before{std::exchange(stream_, std::move(other.stream_))};
  }
  return *this;
}

exchange::~exchange() {
  if (stream_) stream_->reset();
}

net::awaitable<exchange> exchange::open(std::shared_ptr<detail::engine> engine, request r) {
  if (const auto problem = detail::problem_of(r)) {
    canigo::detail::throw_invalid(problem->field, problem->value, problem->allowed);
  }
  co_return co_await after_head(std::make_shared<detail::stream>(std::move(engine), std::move(r)));
}

net::awaitable<exchange> exchange::after_head(std::shared_ptr<detail::stream> s) {
  exchange opened{s};
  try {
    co_await canigo::detail::await_operation<detail::step>(s, net::mutable_buffer{});
  } catch (const std::system_error& e) {
    if (s->problem().empty()) throw;
    throw canigo::detail::error_at{e.code(), s->problem()};
  }
  co_return std::move(opened);
}

const response& exchange::head() const noexcept { return stream_->head(); }

const std::string& exchange::problem() const noexcept { return stream_->problem(); }

net::awaitable<std::size_t> exchange::read_some(net::mutable_buffer to) {
  if (to.size() == 0) canigo::detail::throw_invalid("exchange.read_some buffer", to.size(), "1 byte or more");
  return canigo::detail::await_operation<detail::step>(stream_, to);
}

}  // namespace canigo::http
