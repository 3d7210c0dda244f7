#include "canigo/redis/permit.hpp"

#include "canigo/timeout.hpp"

#include "ledger.hpp"

namespace canigo::redis {

bool permit::release() noexcept {
  if (holding_ == nullptr) return false;
  const auto h = std::exchange(holding_, nullptr);
  return h->home->release(*h);
}

std::uint64_t permit::token() const noexcept { return holding_ != nullptr ? holding_->token : 0; }

std::size_t permit::alternative() const noexcept {
  return holding_ == nullptr || holding_->home->alternatives().empty() ? no_alternative : holding_->alternative;
}

std::string_view permit::alternative_name() const noexcept {
  const std::size_t i = alternative();
  return i == no_alternative ? std::string_view{} : std::string_view{holding_->home->alternatives()[i].name};
}

std::uint64_t permit::held() const noexcept {
  return holding_ != nullptr && holding_->now == detail::holding::state::held ? holding_->weight : 0;
}

void permit::settle(std::uint64_t used) {
  if (holding_ != nullptr) holding_->home->settle(*holding_, 0, used);
}

void permit::settle(unit_key unit, std::uint64_t used) {
  if (holding_ != nullptr) holding_->home->settle(*holding_, holding_->home->find_unit(unit), used);
}

net::awaitable<void> permit::lost() const {
  const auto h = holding_;
  if (h == nullptr) throw std::system_error{make_error_code(errc::stopped)};
  if (is_lost(*h)) co_return;
  try {
    // The sleep never ends by itself. When the permit ends, h->ended cancels the sleep.
    co_await h->ended.wrap(sleep_until(time_point::max()));
  } catch (const std::system_error& e) {
    if (is_lost(*h)) co_return;
    if (h->now == detail::holding::state::held) throw;
  }
  throw std::system_error{make_error_code(errc::stopped)};
}

cancel_source& permit::end_of(detail::holding& h) noexcept { return h.ended; }

bool permit::is_lost(const detail::holding& h) noexcept { return h.now == detail::holding::state::lost; }

}  // namespace canigo::redis
