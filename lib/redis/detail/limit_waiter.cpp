#include "canigo/redis/detail/limit_waiter.hpp"

#include "../ledger.hpp"

namespace canigo::redis::detail {

limit_waiter::limit_waiter(std::shared_ptr<ledger> l, const request& r, bool is_patient) noexcept
    : limit_request{r, is_patient}, home_{std::move(l)}, deadline_{*this} {}

limit_waiter::~limit_waiter() = default;

void limit_waiter::time_is_up(due why) noexcept { home_->time_is_up(*this, why); }

void limit_waiter::request_cancel() noexcept { home_->cancel(*this); }

const net::any_io_executor& limit_waiter::home_executor() const noexcept { return home_->executor(); }

permit limit_waiter::take_permit() noexcept {
  if (!error_ && (granted_.held() == 0 || !home_->lease_lasts())) {
    error_ = errc::lease_lost;
    granted_ = {};
  }
  return std::move(granted_);
}

void start(limit_waiter& w) noexcept { w.home_->start(w); }

const net::any_io_executor& executor_of(const ledger& l) noexcept { return l.executor(); }

}  // namespace canigo::redis::detail
