#include "canigo/redis/detail/call.hpp"

#include "../engine.hpp"

namespace canigo::redis::detail {

call::call(std::shared_ptr<engine> e, const command& c)
    : engine_{std::move(e)},
      bytes_{c.encoded()},
      run_id_at_{c.wants_run_id() ? bytes_.find(command::run_id_placeholder) : std::string::npos},
      asks_first_{c.asks_first()},
      is_restated_{c.is_restated()},
      timeout_{c.timeout()},
      deadline_{*this} {}

call::~call() = default;

void call::time_is_up(due why) noexcept { engine_->time_is_up(*this, why); }

void call::request_cancel() noexcept { engine_->cancel(*this); }

const net::any_io_executor& call::home_executor() const noexcept { return engine_->executor(); }

void start(call& c) noexcept { c.engine_->start(c); }

const net::any_io_executor& executor_of(const engine& e) noexcept { return e.executor(); }

}  // namespace canigo::redis::detail
