#pragma once

#include "canigo/net.hpp"
#include "canigo/resource_pool.hpp"

#include "gateway/upstream/link.hpp"

#include <atomic>
#include <cstddef>
#include <optional>

namespace canigo::gateway {

/// One loop's connections to an upstream: a pool that grows with its use.
///
/// A worker of a pool takes some 2 KiB before it has a connection. So there are no more of them than were ever in use
/// at once: none before the first use, and one for a host that is asked now and then.
/// Threads: those of its loop; set_most() any.
class link_pool {
 public:
  link_pool(const net::any_io_executor& loop, std::size_t most) : loop_{loop}, most_{most} {}

  /// The most connections. Those that are there stay.
  void set_most(std::size_t most) noexcept { most_.store(most, std::memory_order_relaxed); }

  /// Closes the connections that nobody uses.
  void close_idle() noexcept;

  /// One connection's worth of room, while it lives.
  class use {
   public:
    explicit use(link_pool& home) : home_{home} { home_.enter(); }
    ~use() { --home_.in_use_; }
    use(const use&) = delete;
    use& operator=(const use&) = delete;

    resource_pool<link>& links() noexcept { return *home_.links_; }

   private:
    link_pool& home_;
  };

 private:
  void enter();

  const net::any_io_executor loop_;
  std::atomic<std::size_t> most_;
  std::size_t workers_ = 1;
  std::size_t in_use_ = 0;
  std::optional<resource_pool<link>> links_;
};

}  // namespace canigo::gateway
