#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/upstream/link.hpp"

#include <asio/any_io_executor.hpp>

#include <atomic>
#include <cstddef>
#include <memory>

namespace canigo::gateway {

/// The idle connections of one event loop to an upstream. A call takes the connection that was used last, or a new one
/// if the pool is empty. So connections that are not needed grow old, and are closed before the upstream closes them.
///
/// Threads: only the thread of its loop; set_most() and the destructor: any.
class link_pool {
 public:
  /// `most`: the max number of idle connections that the pool keeps.
  link_pool(const net::any_io_executor& loop, std::size_t most);
  link_pool(const link_pool&) = delete;
  link_pool& operator=(const link_pool&) = delete;
  ~link_pool();

  void set_most(std::size_t most) noexcept { most_.store(most, std::memory_order_relaxed); }
  void close_idle() noexcept;

  /// Takes a connection from the pool for the lifetime of this object. The connection may not be open yet.
  class use {
   public:
    explicit use(link_pool& home) : home_{home}, link_{home.take()} {}
    ~use() {
      if (is_sound_ && link_->stream) home_.put(std::move(link_));
    }
    use(const use&) = delete;
    use& operator=(const use&) = delete;

    link& operator*() const noexcept { return *link_; }
    /// Marks the connection as reusable: the destructor then puts it back into the pool, instead of closing it.
    void end() noexcept { is_sound_ = true; }

   private:
    link_pool& home_;
    std::unique_ptr<link> link_;
    bool is_sound_ = false;
  };

 private:
  struct idle;

  std::unique_ptr<link> take();
  void put(std::unique_ptr<link> l) noexcept;

  std::atomic<std::size_t> most_;
  const std::shared_ptr<idle> idle_;  // shared, because the timer's handler may run after the pool is destroyed
};

}  // namespace canigo::gateway
