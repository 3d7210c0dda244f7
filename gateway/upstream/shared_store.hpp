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

/// The Redis in which instances share limits. Each second a script is run to find out whether Redis serves the limits.
/// It writes, as the limits' scripts do, so it also notices a Redis that answers each write with an error, such as one
/// without memory. In a cluster it asks the node of the URL only.
///
/// Threads: any for client() and now(). The object lives on one loop.
class shared_store {
 public:
  struct status {
    bool is_connected = false;  ///< the last script was answered, without an error
    std::string why;            ///< the reason if it is not connected, without a credential
  };

  /// Connects on the loop of `executor`. `looked` is called there after each run of the script.
  ///
  /// Throws system_error for a URL that can't be read. Its text does not show the password.
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
