#include "gateway/upstream/upstream_place.hpp"

#include "gateway/upstream/upstream_limit.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>

#include <algorithm>

namespace canigo::gateway {
namespace {

// The largest amount that redis::permit::settle() accepts.
constexpr std::uint64_t most_settled = std::uint64_t{1} << 31;

net::awaitable<void> wait_for_loss(std::shared_ptr<redis::permit> held, std::shared_ptr<std::function<void()>> lost) {
  try {
    co_await held->lost();
  } catch (const system_error&) {  // lost() has thrown, because the permit was given back
    co_return;
  }
  if (*lost) (*lost)();
}

}  // namespace

bool upstream_place::report(bool failed) noexcept {
  return home_ != nullptr && home_->targets_[target_]->report(pass_, failed);
}

bool upstream_place::report_broken_off() noexcept {
  return home_ != nullptr && home_->targets_[target_]->report_broken_off(pass_);
}

void upstream_place::watch(const net::any_io_executor& executor, std::function<void()> lost) {
  if (shared_ == nullptr || !home_->shared()->has_leases()) return;
  lost_ = std::make_shared<std::function<void()>>(std::move(lost));
  net::co_spawn(executor, wait_for_loss(shared_, lost_), net::detached);
}

void upstream_place::settle(std::span<const token_amount> used) {
  for (const token_amount& a : used) settle(home_->number_of(a.unit), a.amount);
}

void upstream_place::settle(std::size_t unit, std::uint64_t used) {
  local_.settle(unit, used);
  if (shared_ != nullptr) shared_->settle(unit, std::min(used, most_settled));
}

void upstream_place::give_back() {
  if (home_ == nullptr) return;
  for (std::size_t unit = 0; unit < home_->units(); ++unit) settle(unit, 0);
  release();
}

void upstream_place::release() noexcept {
  if (home_ == nullptr) return;
  if (lost_ != nullptr) *lost_ = nullptr;
  // release() ends wait_for_loss(), which then does not call its handler.
  if (shared_ != nullptr) shared_->release();
  shared_.reset();
  std::exchange(home_, nullptr)->targets_[target_]->leave(pass_, local_);
}

}  // namespace canigo::gateway
