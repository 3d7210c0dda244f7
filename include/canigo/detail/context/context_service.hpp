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

/// The base of an object that uses an execution context and must stop using it when the context is destroyed.
class context_member {
 public:
  context_member(const context_member&) = delete;
  context_member& operator=(const context_member&) = delete;

  /// Called when the context shuts down. The object must destroy its waiters, call no handler, and not use the context
  /// any more.
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

/// The list of all canigo objects that use an execution context. It is a service of that context, and calls
/// context_shutdown() of each object when the context is destroyed. So an object may outlive its context, and may
/// belong to a coroutine that the context destroys.
class context_service : public net::execution_context::service {
 public:
  using key_type = context_service;
  static net::execution_context::id id;

  explicit context_service(net::execution_context& context);

  /// The service of the context of `executor`. The first call creates it.
  static context_service& of(const net::any_io_executor& executor);

  void add(context_member& member) noexcept;
  /// Removes a member. Returns false if the context is shutting down and member.context_shutdown() has already begun or
  /// ended.
  bool remove(context_member& member) noexcept;

  /// The counter of the threads that use the context at the moment (visits). Use it on a thread that can't know whether
  /// another thread is destroying the context. An object in the list may call visits() only under its own lock, and
  /// before its context_shutdown() ran: until then the context exists.
  context_visits& visits() noexcept { return visits_; }

  /// Returns a new number in each call. Any thread may call it.
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
