#include "canigo/redis/wait_group.hpp"

#include "canigo/detail/base/mutex.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace canigo::redis {

struct wait_group::places {
  mutable canigo::detail::mutex mutex;
  std::map<std::string, permit, std::less<>> out;
};

wait_group::wait_group(semaphore& slots) : slots_{slots}, places_{std::make_shared<places>()} {}

wait_group::~wait_group() = default;

net::awaitable<std::string> wait_group::add(int priority) { return add(places_, slots_, priority); }

net::awaitable<std::string> wait_group::add(std::shared_ptr<places> p, semaphore& slots, int priority) {
  permit place = co_await slots.acquire({.priority = priority});
  // The token alone is not unique: permits that this process grants from its idle permits may have the same token. So
  // the id also contains a serial number.
  static std::atomic<std::uint64_t> serial{0};
  std::string id = std::to_string(place.token()) + "." + std::to_string(serial.fetch_add(1));
  const std::lock_guard lock{p->mutex};
  p->out.emplace(id, std::move(place));
  co_return id;
}

bool wait_group::done(std::string_view id) noexcept {
  permit place;
  {
    const std::lock_guard lock{places_->mutex};
    const auto found = places_->out.find(id);
    if (found == places_->out.end()) return false;
    place = std::move(found->second);
    places_->out.erase(found);
  }
  return place.release();
}

std::size_t wait_group::count() const {
  const std::lock_guard lock{places_->mutex};
  return places_->out.size();
}

}  // namespace canigo::redis
