#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/net.hpp"

#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/post.hpp>
#include <asio/recycling_allocator.hpp>
#include <asio/use_awaitable.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace bench {

namespace net = canigo::net;

/// The simplest possible semaphore for coroutines: a counter and a list of waiters under the same lock. A release posts
/// the first waiter. It has no classes, deadlines, cancellation or shutdown.
class bare_semaphore {
 public:
  explicit bare_semaphore(std::uint64_t permits) : free_{permits} {}

  net::awaitable<void> acquire() {
    if (try_acquire()) co_return;
    co_await net::async_initiate<const net::use_awaitable_t<>&, void()>(
        [this](auto handler) { wait(std::move(handler)); }, net::use_awaitable);
  }
  void release() {
    waiter* w = nullptr;
    {
      const std::lock_guard guard{lock_};
      w = first_;
      if (w == nullptr) {
        ++free_;
        return;
      }
      first_ = w->next;
    }
    w->post();
  }

 private:
  struct waiter {
    virtual void post() = 0;
    waiter* next = nullptr;

   protected:
    ~waiter() = default;
  };
  template <class Handler>
  struct waiter_of final : waiter {
    explicit waiter_of(Handler h) : handler{std::move(h)} {}
    void post() override {
      Handler h = std::move(handler);
      allocator memory;
      std::destroy_at(this);
      memory.deallocate(this, 1);
      net::post(std::move(h));
    }
    using allocator = net::recycling_allocator<waiter_of>;
    Handler handler;
  };

  bool try_acquire() {
    const std::lock_guard guard{lock_};
    if (free_ == 0) return false;
    --free_;
    return true;
  }
  template <class Handler>
  void wait(Handler handler) {
    typename waiter_of<Handler>::allocator memory;
    waiter* w = std::construct_at(memory.allocate(1), std::move(handler));
    {
      const std::lock_guard guard{lock_};
      if (free_ == 0) {
        (first_ == nullptr ? first_ : last_->next) = w;
        last_ = w;
        return;
      }
      --free_;
    }
    w->post();
  }

  canigo::detail::mutex lock_;
  std::uint64_t free_;
  waiter* first_ = nullptr;
  waiter* last_ = nullptr;
};

}  // namespace bench
