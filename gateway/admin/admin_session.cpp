#include "gateway/admin/admin_session.hpp"

#include "gateway/admin/state.hpp"

#include <chrono>
#include <utility>

// In this file, a co_await expression contains no temporary that needs a destructor: g++ 12 may destroy it twice.
namespace canigo::gateway {

net::awaitable<std::shared_ptr<const std::string>> admin_session::recent_state(service& s) {
  constexpr std::chrono::milliseconds fresh{800};
  {
    const std::lock_guard lock{mutex_};
    if (state_ && std::chrono::steady_clock::now() - made_ < fresh) co_return state_;
  }
  auto making = state_of(s, *this, false);
  std::string text = co_await std::move(making);
  auto made = std::make_shared<const std::string>(std::move(text));
  const std::lock_guard lock{mutex_};
  state_ = made;
  made_ = std::chrono::steady_clock::now();
  co_return made;
}

std::uint64_t admin_session::number_of(const std::shared_ptr<const config_snapshot>& g) {
  const std::lock_guard lock{mutex_};
  if (last_.lock() != g) {
    last_ = g;
    ++number_;
  }
  return number_;
}

}  // namespace canigo::gateway
