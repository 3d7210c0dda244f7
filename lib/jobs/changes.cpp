#include "changes.hpp"

#include "canigo/error.hpp"

#include <mutex>
#include <system_error>
#include <utility>

namespace canigo::jobs::detail {

net::awaitable<std::uint64_t> changes::after(std::shared_ptr<changes> c, std::uint64_t seen) {
  std::shared_ptr<wait_group> round;
  {
    const std::lock_guard lock{c->mutex_};
    if (c->is_stopped_) throw std::system_error{make_error_code(errc::stopped)};
    if (c->number_ != seen) co_return c->number_;
    if (c->round_ == nullptr) {
      c->round_ = std::make_shared<wait_group>(c->executor_);
      c->round_->add();
    }
    round = c->round_;
  }
  co_await round->wait();
  const std::lock_guard lock{c->mutex_};
  if (c->is_stopped_) throw std::system_error{make_error_code(errc::stopped)};
  co_return c->number_;
}

std::uint64_t changes::number() const noexcept {
  const std::lock_guard lock{mutex_};
  return number_;
}

void changes::ring(bool for_good) noexcept {
  std::shared_ptr<wait_group> round;
  {
    const std::lock_guard lock{mutex_};
    ++number_;
    is_stopped_ = is_stopped_ || for_good;
    round = std::exchange(round_, nullptr);
  }
  if (round != nullptr) round->done();
}

}  // namespace canigo::jobs::detail
