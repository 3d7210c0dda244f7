#pragma once

#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace canigo::detail {

/// The base of a mark, which tells for which object (`maker`) the work on an executor runs.
///
/// Copies of an executor may be kept for long, so a mark may outlive the work. Whether the work has ended is known only
/// under the maker's lock.
struct executor_mark {
  executor_mark(const void* whose, const net::any_io_executor& executor)
      : maker{whose}, inner{executor}, posting{net::require(executor, net::execution::blocking.never)} {}
  virtual ~executor_mark() = default;
  const void* const maker;
  const net::any_io_executor inner;    // the executor on which the work runs
  const net::any_io_executor posting;  // like `inner`, but never runs functions inside execute()

  /// Returns whether the work holds a permit. If so, the permit is not released before let_go(), even if the work ends
  /// earlier.
  virtual bool keep() noexcept { return false; }
  virtual void let_go() noexcept {}
};

/// An executor with a mark. Operations that a coroutine starts on it can use mark_of() to find out that they run inside
/// the marked work.
///
/// All other properties are those of the inner executor: it is a strand only if the inner executor is one.
class marked_executor {
 public:
  explicit marked_executor(std::shared_ptr<executor_mark> mark) noexcept : mark_{std::move(mark)} {}

  net::execution_context& query(net::execution::context_t) const noexcept {
    return net::query(mark_->inner, net::execution::context);
  }
  /// Returns blocking.never if require() has asked for it. With any other value, a strand on top of this executor runs
  /// a posted function immediately.
  net::execution::blocking_t query(net::execution::blocking_t) const noexcept {
    return never_blocks_ ? net::execution::blocking_t{net::execution::blocking.never}
                         : net::execution::blocking_t{net::execution::blocking.possibly};
  }
  marked_executor require(net::execution::blocking_t::never_t) const noexcept { return {mark_, true}; }
  marked_executor require(net::execution::blocking_t::possibly_t) const noexcept { return {mark_, false}; }

  template <class Function>
  void execute(Function&& f) const {
    (never_blocks_ ? mark_->posting : mark_->inner).execute(std::forward<Function>(f));
  }

  bool operator==(const marked_executor& other) const noexcept {
    return mark_ == other.mark_ && never_blocks_ == other.never_blocks_;
  }
  bool operator!=(const marked_executor& other) const noexcept { return !(*this == other); }

  const std::shared_ptr<executor_mark>& mark() const noexcept { return mark_; }

 private:
  marked_executor(std::shared_ptr<executor_mark> mark, bool never_blocks) noexcept
      : mark_{std::move(mark)}, never_blocks_{never_blocks} {}

  std::shared_ptr<executor_mark> mark_;
  bool never_blocks_ = false;
};

/// While this object exists, each marked work on `executor` that holds a permit keeps that permit, even after the work
/// has ended.
class kept_places {
 public:
  explicit kept_places(const net::any_io_executor& executor);
  ~kept_places();
  kept_places(const kept_places&) = delete;
  kept_places& operator=(const kept_places&) = delete;

 private:
  std::vector<std::shared_ptr<executor_mark>> marks_;
};

/// The innermost mark of `maker` on `executor`, or on an executor below it; null if there is none.
std::shared_ptr<executor_mark> mark_of(const net::any_io_executor& executor, const void* maker);

}  // namespace canigo::detail
