#include "gateway/upstream/shared_store.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/reply.hpp"

#include "gateway/http/standard_error.hpp"

#include <chrono>
#include <utility>

namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

constexpr duration between_looks = 1s;

redis::client_options options() {
  redis::client_options o;
  o.name = "canigo-gateway";
  o.connect_timeout = 2s;
  return o;
}

}  // namespace

shared_store::shared_store(const net::any_io_executor& executor, std::string_view url, std::function<void()> looked)
    : looked_{std::move(looked)}, client_{executor, url, options()}, next_{executor} {
  look();
}

void shared_store::look() {
  auto ping = redis::command{"PING"}.with_timeout(1s);
  client_.async_run(ping, [this](const error_code& error, const redis::reply& answer) {
    if (error == errc::stopped) return;
    bool was_connected = false;
    {
      const std::lock_guard lock{mutex_};
      was_connected = std::exchange(status_.is_connected, !error);
      status_.why = !error ? std::string{} : answer.text().empty() ? error.message() : answer.text();
    }
    if (was_connected && error) say("Redis, which keeps shared limits, does not answer: {}", now().why);
    if (!was_connected && !error) say("Redis, which keeps shared limits, answers");
    looked_();
    next_.expires_after(between_looks);
    next_.async_wait([this](const error_code& cancelled) {
      if (!cancelled) look();
    });
  });
}

shared_store::status shared_store::now() const {
  const std::lock_guard lock{mutex_};
  return status_;
}

}  // namespace canigo::gateway
