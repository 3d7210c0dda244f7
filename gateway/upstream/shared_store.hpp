#pragma once

#include "canigo/net.hpp"
#include "canigo/redis/client.hpp"

#include "gateway/config/config.hpp"

#include <asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The connection to the Redis in which instances share limits. Each second it runs a script that checks whether Redis
/// can serve the limits. The script writes a value, so it also detects a Redis that rejects writes, such as one without
/// memory. In a cluster only the node of the URL is checked.
///
/// Threads: any for client() and now(). Everything else runs on one event loop.
class shared_store {
 public:
  struct status {
    bool is_connected = false;  ///< whether the last run of the script succeeded
    std::string why;            ///< why the last run of the script failed; contains no credentials
  };

  /// Connects on the loop of `executor`. After each run of the script that checks Redis, `looked` is called on that
  /// loop.
  ///
  /// Throws system_error for a malformed URL. The error's text does not contain the password.
  shared_store(const net::any_io_executor& executor, std::string_view url, const redis_tls_files& tls,
               std::function<void()> looked);
  shared_store(const shared_store&) = delete;
  shared_store& operator=(const shared_store&) = delete;

  redis::client& client() noexcept { return client_; }
  status now() const;

 private:
  void look();

  std::function<void()> looked_;
  redis::client client_;
  net::steady_timer next_;
  std::uint64_t looks_ = 0;
  mutable std::mutex mutex_;
  status status_{false, "it was not asked yet"};
};

}  // namespace canigo::gateway
