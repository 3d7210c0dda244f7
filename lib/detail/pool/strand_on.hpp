#pragma once

#include "canigo/detail/base/block_cache.hpp"
#include "canigo/detail/pool/worker_strand.hpp"
#include "canigo/detail/stealing/stealing_executor.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/co_spawn.hpp>
#include <asio/dispatch.hpp>
#include <asio/execution_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// A function whose memory in an executor's queue comes from the block cache.
template <class Function>
struct in_blocks {
  using allocator_type = block_allocator<void>;
  allocator_type get_allocator() const noexcept { return {}; }
  void operator()() { std::move(function)(); }
  Function function;
};

/// The number of memory blocks that are reserved for a post. A strand queues a function before it allocates memory to
/// schedule itself. If that allocation failed, the strand would stall for ever.
constexpr std::size_t blocks_per_post = 4;

/// A worker's strand, with pointers to the worker (`owner`) and to its pool (`home`). Executors of the strand may
/// outlive the worker and its pool.
template <class Strand>
struct strand_of_worker {
  strand_of_worker(const typename Strand::inner_executor_type& inner, const void* o, const void* h)
      : strand{inner}, owner{o}, home{h} {}
  Strand strand;
  std::atomic<const void*> owner;
  const void* home;
  std::atomic<std::uint32_t> operation{0};  // the number of the operation that the worker's coroutine runs, or ran last
};

/// A strand executor that does not track outstanding work.
///
/// It fits into the small buffer of any_io_executor. A larger executor would be copied to the heap three times for each
/// operation of an awaiting coroutine.
template <class Strand>
class worker_executor {
 public:
  using shared_strand = std::shared_ptr<strand_of_worker<Strand>>;

  worker_executor(shared_strand strand, std::uint32_t operation, bool never_blocks) noexcept
      : strand_(std::move(strand)), operation_{operation}, never_blocks_{never_blocks} {}
  /// An executor with operation 0 serves all operations of the worker. A copy of it stores the number of the operation
  /// that makes the copy. So if an operation leaves work on the strand, that work is not attributed to the next
  /// operation.
  worker_executor(const worker_executor& other) noexcept
      : strand_{other.strand_}, operation_{other.operation()}, never_blocks_{other.never_blocks_} {}
  worker_executor(worker_executor&&) noexcept = default;
  worker_executor& operator=(const worker_executor& other) noexcept { return *this = worker_executor{other}; }
  worker_executor& operator=(worker_executor&&) noexcept = default;

  net::execution_context& query(net::execution::context_t) const noexcept {
    return net::query(strand_->strand.get_inner_executor(), net::execution::context);
  }
  /// A strand that is built on this executor queries this property. With blocking.possibly, that strand runs posted
  /// functions inside the call of post().
  net::execution::blocking_t query(net::execution::blocking_t) const noexcept {
    return never_blocks_ ? net::execution::blocking_t{net::execution::blocking.never}
                         : net::execution::blocking_t{net::execution::blocking.possibly};
  }
  worker_executor require(net::execution::blocking_t::never_t) const noexcept { return {strand_, operation(), true}; }
  worker_executor require(net::execution::blocking_t::possibly_t) const noexcept {
    return {strand_, operation(), false};
  }

  template <class Function>
  void execute(Function&& f) const {
    if (!never_blocks_ && strand_->strand.running_in_this_thread()) {
      // The strand itself would also run the function here, but allocates memory first. A worker's coroutine must be
      // able to end without memory, so this code calls the function directly.
      std::decay_t<Function> function{std::forward<Function>(f)};
      std::move(function)();
      return;
    }
    reserve_blocks(blocks_per_post);
    in_blocks<std::decay_t<Function>> function{std::forward<Function>(f)};
    if (never_blocks_) {
      net::post(strand_->strand, std::move(function));
    } else {
      net::dispatch(strand_->strand, std::move(function));
    }
  }

  bool operator==(const worker_executor& other) const noexcept {
    return strand_ == other.strand_ && never_blocks_ == other.never_blocks_;
  }
  bool operator!=(const worker_executor& other) const noexcept { return !(*this == other); }

  worker_strand::mark mark() const noexcept {
    return {strand_->owner.load(std::memory_order_acquire), strand_->home, operation_};
  }

 private:
  std::uint32_t operation() const noexcept {
    return operation_ != 0 ? operation_ : strand_->operation.load(std::memory_order_relaxed);
  }

  shared_strand strand_;
  std::uint32_t operation_;
  bool never_blocks_;
};

static_assert(sizeof(worker_executor<net::strand<net::any_io_executor>>) <=
              sizeof(std::shared_ptr<void>) + sizeof(void*));

template <class Inner>
class strand_on final : public worker_strand {
 public:
  strand_on(const Inner& inner, const void* owner, const void* home)
      : strand_{std::make_shared<strand_of_worker<net::strand<Inner>>>(inner, owner, home)},
        executor_{worker_executor<net::strand<Inner>>{strand_, 0, false}} {}
  ~strand_on() override { strand_->owner.store(nullptr, std::memory_order_release); }

  const net::any_io_executor& executor() const noexcept override { return executor_; }

  const net::any_io_executor& executor_for(std::uint32_t operation) noexcept override {
    if (std::exchange(operation_, operation) != operation) {
      operations_executor_ = worker_executor<net::strand<Inner>>{strand_, operation, false};
    }
    return operations_executor_;
  }

  void begins(std::uint32_t operation) noexcept override {
    strand_->operation.store(operation, std::memory_order_relaxed);
  }

  void post(suspended& s) const override {
    reserve_blocks(blocks_per_post);
    post_resumption(strand_->strand, s, block_allocator<void>{});
  }

  void dispatch(suspended& s) const override {
    reserve_blocks(blocks_per_post);
    const posting p{s};
    try {
      net::dispatch(strand_->strand, resumption<block_allocator<void>>{s, {}});
    } catch (...) {
      if (p.was_dropped()) throw;
    }
    if (p.was_dropped()) s.destroy();
  }

  void spawn(net::awaitable<void> coroutine, net::cancellation_slot slot, worker_life until_it_goes) const override {
    // Clears the number of the previous operation. That number is still stored if the operation was cut off before its
    // end.
    strand_->operation.store(0, std::memory_order_relaxed);
    // From Asio 1.24 on, co_spawn may post once more after the coroutine's end, and that post uses the cancellation
    // slot. So the handler `end`, which is destroyed later than the coroutine's frame, keeps the worker alive.
    auto end = [life = std::move(until_it_goes)](const std::exception_ptr&) {};
    net::co_spawn(worker_executor<net::strand<Inner>>{strand_, 0, false}, std::move(coroutine),
                  net::bind_cancellation_slot(slot, std::move(end)));
  }

 private:
  typename worker_executor<net::strand<Inner>>::shared_strand strand_;
  net::any_io_executor executor_;
  net::any_io_executor operations_executor_;
  std::uint32_t operation_ = 0;  // the number of the operation for which operations_executor_ was made
};

using stealing_strand = net::strand<work_stealing_executor>;

// Defined in a separate source file. If one source file contains the strands of work_stealing and of io_context, g++
// inlines fewer functions into the strands of io_context.
std::unique_ptr<worker_strand> make_stealing_strand(const work_stealing_executor& inner, const void* owner,
                                                    const void* home);
net::any_io_executor stealing_strand_of_no_worker(const work_stealing_executor& inner);

}  // namespace canigo::detail
