#include "gateway/admin/admin_session.hpp"

#include "gateway/admin/state.hpp"

#include <chrono>
#include <utility>

// g++ 12 may destroy a temporary of a co_await expression twice. So in this file, no temporary of a co_await expression
// needs a destructor.
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
