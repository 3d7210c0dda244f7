#include "canigo/http/detail/transfer.hpp"

#include "../engine.hpp"

namespace canigo::http::detail {

transfer::transfer(std::shared_ptr<engine> e, const request& r) noexcept
    : engine_{std::move(e)}, request_{r}, deadline_{*this} {}

transfer::~transfer() = default;

void transfer::time_is_up(due why) noexcept {
  if (why == due::expired) engine_->time_is_up(*this);
}

bool transfer::take(std::string_view part, std::size_t) {
  if (request_.keep_body) response_.body.append(part);
  return true;
}

void transfer::request_cancel() noexcept { engine_->cancel(*this); }

const net::any_io_executor& transfer::home_executor() const noexcept { return engine_->executor(); }

void start(transfer& t) noexcept { t.engine_->start(t); }

const net::any_io_executor& executor_of(const engine& e) noexcept { return e.executor(); }

}  // namespace canigo::http::detail
