#include "gateway/upstream/shared_store.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/error.hpp"
#include "canigo/redis/reply.hpp"

#include "gateway/wire/standard_error.hpp"

#include <chrono>
#include <utility>

namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

constexpr duration between_looks = 1s;

// This script writes a value, as the scripts of the limits do. So if Redis rejects their writes, it also rejects this
// script. The key expires one minute after the last write of any instance.
constexpr std::string_view look_script =
    "redis.call('HSET', KEYS[1], 'at', ARGV[1]) return redis.call('PEXPIRE', KEYS[1], 60000)";
constexpr std::string_view look_key = "{canigo:canigo-gateway}:look";

redis::client_options options(const redis_tls_files& tls) {
  redis::client_options o;
  o.ca_file = tls.ca;
  o.cert_file = tls.cert;
  o.key_file = tls.key;
  o.name = "canigo-gateway";
  o.connect_timeout = 2s;
  return o;
}

}  // namespace

shared_store::shared_store(const net::any_io_executor& executor, std::string_view url, const redis_tls_files& tls,
                           std::function<void()> looked)
    : looked_{std::move(looked)}, client_{executor, url, options(tls)}, next_{executor} {
  look();
}

void shared_store::look() {
  auto question = redis::command{"EVAL", look_script, 1, look_key, ++looks_}.with_timeout(1s);
  client_.async_run(question, [this](error_code error, const redis::reply& answer) {
    if (error == errc::stopped) return;
    // In a cluster, the node of the URL may not own the key, and answers with a redirect. Even this shows that the node
    // answers.
    if (error == redis::error::moved) error.clear();
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
