#pragma once

#include "canigo/detail/stealing/posted.hpp"
#include "canigo/detail/stealing/stealing_service.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/execution.hpp>
#include <asio/io_context.hpp>
#include <asio/require.hpp>

#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// If `IsTracked` is true, this object counts as outstanding work of the io_context: while the object exists, run()
/// does not return.
template <bool IsTracked>
struct stealing_work {
  explicit stealing_work(net::io_context&) noexcept {}
};
template <>
struct stealing_work<true> {
  using executor_type = std::decay_t<decltype(net::require(std::declval<net::io_context&>().get_executor(),
                                                           net::execution::outstanding_work.tracked))>;
  explicit stealing_work(net::io_context& io) noexcept
      : work{net::require(io.get_executor(), net::execution::outstanding_work.tracked)} {}
  executor_type work;
};

/// The executor of work_stealing. It has the same properties as the executor of an io_context.
template <class Allocator, bool IsTracked>
class stealing_executor {
 public:
  explicit stealing_executor(stealing_service& service, const Allocator& allocator = {}) noexcept
      : stealing_executor{service, allocator, false, false} {}

  /// Whether the calling thread runs the io_context, so that a function may be called immediately.
  bool running_in_this_thread() const noexcept { return service_->runs_here(); }
  net::io_context& context() const noexcept { return service_->context(); }

  /// Runs `f` on a thread that runs the io_context. If the calling thread is such a thread, and blocking.possibly is
  /// set, calls `f` immediately. In both cases an exception of `f` leaves run().
  template <class Function>
  void execute(Function&& f) const {
    if (!never_blocks_ && service_->runs_here()) return run_here(std::forward<Function>(f));
    service_->push(*make_posted(std::forward<Function>(f), allocator_), is_continuation_);
  }

  template <class OtherAllocator>
  bool operator==(const stealing_executor<OtherAllocator, IsTracked>& other) const noexcept {
    return service_ == other.service_ && never_blocks_ == other.never_blocks_ &&
           is_continuation_ == other.is_continuation_ && allocator_ == other.allocator_;
  }

  net::io_context& query(net::execution::context_t) const noexcept { return context(); }
  static constexpr net::execution::mapping_t query(net::execution::mapping_t) noexcept {
    return net::execution::mapping.thread;
  }
  net::execution::blocking_t query(net::execution::blocking_t) const noexcept {
    return never_blocks_ ? net::execution::blocking_t{net::execution::blocking.never}
                         : net::execution::blocking_t{net::execution::blocking.possibly};
  }
  net::execution::relationship_t query(net::execution::relationship_t) const noexcept {
    return is_continuation_ ? net::execution::relationship_t{net::execution::relationship.continuation}
                            : net::execution::relationship_t{net::execution::relationship.fork};
  }
  static constexpr net::execution::outstanding_work_t query(net::execution::outstanding_work_t) noexcept {
    return IsTracked ? net::execution::outstanding_work_t{net::execution::outstanding_work.tracked}
                     : net::execution::outstanding_work_t{net::execution::outstanding_work.untracked};
  }
  template <class OtherAllocator>
  Allocator query(net::execution::allocator_t<OtherAllocator>) const noexcept {
    return allocator_;
  }
  Allocator query(net::execution::allocator_t<void>) const noexcept { return allocator_; }

  stealing_executor require(net::execution::blocking_t::never_t) const noexcept {
    return {*service_, allocator_, true, is_continuation_};
  }
  stealing_executor require(net::execution::blocking_t::possibly_t) const noexcept {
    return {*service_, allocator_, false, is_continuation_};
  }
  stealing_executor require(net::execution::relationship_t::fork_t) const noexcept {
    return {*service_, allocator_, never_blocks_, false};
  }
  stealing_executor require(net::execution::relationship_t::continuation_t) const noexcept {
    return {*service_, allocator_, never_blocks_, true};
  }
  stealing_executor<Allocator, true> require(net::execution::outstanding_work_t::tracked_t) const noexcept {
    return {*service_, allocator_, never_blocks_, is_continuation_};
  }
  stealing_executor<Allocator, false> require(net::execution::outstanding_work_t::untracked_t) const noexcept {
    return {*service_, allocator_, never_blocks_, is_continuation_};
  }
  template <class OtherAllocator>
  stealing_executor<OtherAllocator, IsTracked> require(
      net::execution::allocator_t<OtherAllocator> allocator) const noexcept {
    return {*service_, allocator.value(), never_blocks_, is_continuation_};
  }
  stealing_executor<std::allocator<void>, IsTracked> require(net::execution::allocator_t<void>) const noexcept {
    return {*service_, std::allocator<void>{}, never_blocks_, is_continuation_};
  }

  stealing_service& service() const noexcept { return *service_; }

 private:
  template <class, bool>
  friend class stealing_executor;

  stealing_executor(stealing_service& service, const Allocator& allocator, bool never_blocks,
                    bool is_continuation) noexcept
      : service_{&service},
        never_blocks_{never_blocks},
        is_continuation_{is_continuation},
        allocator_(allocator),
        work_{service.context()} {}

  template <class Function>
  void run_here(Function&& f) const {
    try {
      std::decay_t<Function> function(std::forward<Function>(f));
      std::move(function)();
    } catch (...) {
      // As with an io_context, the exception leaves run(), because the caller of execute() is not responsible for it.
      service_->throw_from_run(std::current_exception());
    }
  }

  stealing_service* service_;
  bool never_blocks_;
  bool is_continuation_;
  [[no_unique_address]] Allocator allocator_;
  [[no_unique_address]] stealing_work<IsTracked> work_;
};

/// The executor type of work_stealing::get_executor().
using work_stealing_executor = stealing_executor<std::allocator<void>, false>;

}  // namespace canigo::detail
