#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/context_visit.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/execution_context.hpp>

#include <atomic>
#include <cstdint>

namespace canigo::detail {

/// An object that lives on an execution context and must let go of it before it goes away.
class context_member {
 public:
  context_member(const context_member&) = delete;
  context_member& operator=(const context_member&) = delete;

  /// The context is shutting down: destroy what waits, call nothing, touch the context no more.
  virtual void context_shutdown() noexcept = 0;

 protected:
  context_member() = default;
  ~context_member() = default;

 private:
  friend class context_service;
  context_member* previous_ = nullptr;
  context_member* next_ = nullptr;
  bool is_known_ = false;
};

/// Knows every canigo object of a context, so that an object may outlive its context, and may sit in a coroutine that
/// the context destroys.
class context_service : public net::execution_context::service {
 public:
  using key_type = context_service;
  static net::execution_context::id id;

  explicit context_service(net::execution_context& context);

  /// The service of the context that `executor` belongs to, made at the first call.
  static context_service& of(const net::any_io_executor& executor);

  void add(context_member& member) noexcept;
  /// False if the context is shutting down and has turned to `member` already: its context_shutdown() is called, or
  /// was.
  bool remove(context_member& member) noexcept;

  /// For a thread that does not know whether the context stays. A member calls this under its own lock, and only if it
  /// was not shut down: then the context is still there.
  context_visits& visits() noexcept { return visits_; }

  /// A number that no other call gets. Any thread.
  std::uint64_t next_number() noexcept { return numbers_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void shutdown() override;
  void unlink(context_member& member) noexcept;

  context_visits visits_;
  atomic<std::uint64_t> numbers_{0};
  mutex mutex_;
  context_member* first_ = nullptr;
};

}  // namespace canigo::detail
