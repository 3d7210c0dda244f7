#include "canigo/http/detail/transfer.hpp"

#include "../engine.hpp"

namespace canigo::http::detail {

transfer::transfer(std::shared_ptr<engine> e, const request& r) noexcept
    : engine_{std::move(e)}, request_{r}, limit_{*this} {}

transfer::~transfer() = default;

transfer::limit::limit(transfer& t) noexcept
    : deadline{[](deadline& d, due why) noexcept {
        transfer& late = *static_cast<limit&>(d).owner;
        if (why == due::expired) late.engine_->limit_called(late);
      }},
      owner{&t} {}

void transfer::request_cancel() noexcept { engine_->cancel(*this); }

const net::any_io_executor& transfer::home_executor() const noexcept { return engine_->executor(); }

void start(transfer& t) noexcept { t.engine_->start(t); }

const net::any_io_executor& executor_of(const engine& e) noexcept { return e.executor(); }

}  // namespace canigo::http::detail
